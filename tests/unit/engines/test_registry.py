import pytest

from llmgw.engines import registry
from llmgw.schema.engine import EngineKind, EngineState
from llmgw.schema.errors import InvalidInput
from llmgw.schema.node import Host


def test_an_engine_is_found_by_its_kind():
    assert registry.adapter(EngineKind.LLAMACPP).kind is EngineKind.LLAMACPP


def test_each_adapter_is_filed_under_its_own_kind():
    assert all(adapter.kind is kind for kind, adapter in registry.ADAPTERS.items())


def test_an_engine_without_an_adapter_is_refused_with_those_that_have_one():
    with pytest.raises(InvalidInput, match="vllm") as refused:
        registry.adapter(EngineKind.VLLM)
    assert refused.value.field == "engine"
    assert "llamacpp" in refused.value.allowed


def test_probing_says_unsupported_where_the_machine_does_not_fit():
    pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")
    found = registry.probe(Host(os="x", kernel="x", machine="x86_64"))
    assert [(one.kind, one.state) for one in found] == [(EngineKind.LLAMACPP, EngineState.UNSUPPORTED)]
