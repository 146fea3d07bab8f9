from datetime import UTC, datetime

from llmgw.schema.engine import EngineKind
from llmgw.schema.model import Model, Profile
from llmgw.schema.plan import Claim
from llmgw.server.wiring import resolved

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
