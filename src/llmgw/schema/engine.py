"""Engines: the programs that run models."""

from enum import StrEnum

from llmgw.schema.value import Value


class EngineKind(StrEnum):
    """Engines llmgw knows."""

    LLAMACPP = "llamacpp"
    VLLM = "vllm"
    SGLANG = "sglang"
    FAKE = "fake"
    """Runs nothing: for models of fleets of fake nodes (`llmgw fake-nodes`). Nodes that are real never have it."""


class EngineState(StrEnum):
    """Provisioning state of an engine on a node."""

    INSTALLING = "installing"
    READY = "ready"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


class EngineInstall(Value, frozen=True, kw_only=True):
    """One engine in a version and a variant (`cuda`, `rocm`, `cpu`) on a node."""

    kind: EngineKind
    version: str | None
    variant: str
    state: EngineState
    reason: str | None = None
