from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from llmgw.config.server import ServerConfig
from llmgw.schema.engine import EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Model, Profile
from llmgw.schema.plan import Claim
from llmgw.server.wiring import _refuse_unreachable, resolved

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def model(**profile):
    return Model(name="chat", source="/m.gguf", profile=Profile(**profile), created_at=NOW)


def test_an_engine_with_an_adapter_fills_in_what_is_open():
    found = resolved(model(), None, 8.0)
    assert found.profile.slots is not None
    assert found.claim.cores is not None
    assert resolved(model(), None, 8.0) == found


def test_a_model_no_adapter_is_there_for_keeps_its_profile_and_claims_what_it_says():
    asked = model(engine=EngineKind.VLLM, devices_per_node=2, device_class="h100-80gb", memory_gb=1.5)
    found = resolved(asked, None, 8.0)
    assert found.profile == asked.profile
    assert found.claim == Claim(memory_bytes=1_610_612_736, devices=2, device_class="h100-80gb")


def test_a_control_plane_that_shares_its_store_must_say_where_it_is():
    everywhere = ServerConfig(data_dir="/d", api_listen="0.0.0.0:8800", tls="off")
    _refuse_unreachable(everywhere)
    shared = replace(everywhere, store_url="postgresql://llmgw@db1/llmgw")
    with pytest.raises(InvalidInput) as caught:
        _refuse_unreachable(shared)
    assert caught.value.field == "api_url"
    _refuse_unreachable(replace(shared, api_url="http://10.0.0.1:8800"))
    _refuse_unreachable(replace(shared, api_listen="10.0.0.1:8800"))
