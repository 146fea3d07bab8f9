"""Progress: the counters that tell a working engine from a stuck one."""

from llmgw.schema.value import Value


class Progress(Value, frozen=True, kw_only=True):
    """llama.cpp's counters since its start, and what it has open now."""

    decodes: int
    """Steps of computation: moves whenever anything is computed, prompts included."""
    generated_tokens: int
    prompt_tokens: int
    working: int
    """Requests in slots."""
    waiting: int
    """Requests waiting for a slot."""

    def moved_since(self, earlier: "Progress") -> bool:
        """True unless requests were open all the time and nothing was computed."""
        idle = self.working + self.waiting == 0 or earlier.working + earlier.waiting == 0
        return idle or self.decodes != earlier.decodes


_NAMES = {
    "llamacpp:n_decode_total": "decodes",
    "llamacpp:tokens_predicted_total": "generated_tokens",
    "llamacpp:prompt_tokens_total": "prompt_tokens",
    "llamacpp:requests_processing": "working",
    "llamacpp:requests_deferred": "waiting",
}
"""Metric names of llama.cpp as of October 2026."""


def read_progress(metrics: str) -> Progress | None:
    """Read /metrics; `None` when a counter is missing or no number."""
    values: dict[str, int] = {}
    for line in metrics.splitlines():
        name, _, number = line.partition(" ")
        field = _NAMES.get(name)
        if field is None:
            continue
        try:
            values[field] = int(float(number))
        except (ValueError, OverflowError):
            return None
    if len(values) != len(_NAMES):
        return None
    return Progress(**values)
