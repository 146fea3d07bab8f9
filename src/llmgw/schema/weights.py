"""Weights and the storage they lie on."""

from enum import StrEnum

from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.value import Value


class WeightsFormat(StrEnum):
    """How weights are stored."""

    GGUF = "gguf"
    SAFETENSORS = "safetensors"


class Weights(Value, frozen=True, kw_only=True):
    """Model files that a node can see. `problem` says in words why they cannot be served."""

    path: str
    format: WeightsFormat
    size_bytes: int
    name: str | None = None
    architecture: str | None = None
    quantization: str | None = None
    context_length: int | None = None
    layers: int | None = None
    kv_bytes_per_token: int | None = None
    """Bytes of f16 key and value cache for one token over all layers; `None` when the header does not tell."""
    vocabulary: int | None = None
    """Tokens that its output head chooses among; `None` without such a head (encoders), or when it is not known."""
    chat_template: bool | None = None
    judge: JudgeFamily | None = None
    """The family of judges that the files seem to be of."""
    digest: str | None = None
    """SHA-256 of its content; of several files, that of what `sha256sum` prints for them, sorted by name. `None`: not
    made yet."""
    problem: str | None = None


class WeightsFolder(Value, frozen=True, kw_only=True):
    """One folder the agent was asked to look for weights in, and what keeps it from seeing all that is in there."""

    path: str
    problems: tuple[str, ...] = ()


class WatchedPath(Value, frozen=True, kw_only=True):
    """What a node found at a source that some model asks for outside the configured folders."""

    path: str
    present: bool
    weights: Weights | None = None
    problem: str | None = None


class Storage(Value, frozen=True, kw_only=True):
    """One filesystem holding weights. Unknown is `None`: unknown disk is not full disk."""

    mount: str
    source: str
    fstype: str
    shared: bool | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    problem: str | None = None
