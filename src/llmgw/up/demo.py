"""The small model that `make up` serves when no other is named."""

from pathlib import Path

from llmgw.schema.errors import InvalidInput
from llmgw.up import preflight

DEMO_NAME = "smollm2-135m-instruct"

_CHAT_TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""ChatML without the system turn that the model's own template puts first: with it, so small a model answers short
questions in French ("What is the capital of France?" among them); without it, correctly."""


def demo_source() -> str:
    """Give the demo weights' path. Raises `InvalidInput` when they are not installed."""
    demo = preflight.demo_weights()
    if demo is None:
        raise InvalidInput(
            "the demo weights are not installed in this environment",
            hint="run make up, or give a GGUF file with --model PATH",
            field="model",
        )
    return str(demo)


def demo_profile(source: str) -> dict[str, object]:
    """Give the profile fields `llmgw up` sets for a source: none, except for the demo model."""
    return {"chat_template": _CHAT_TEMPLATE} if _is_demo(source) else {}


def model_name(source: str, name: str | None) -> str:
    """Give the name clients will use: as asked, else from the file."""
    if name is not None:
        return name
    if _is_demo(source):
        return DEMO_NAME
    return Path(source.rsplit(":", maxsplit=1)[-1]).stem.lower() or "model"


def _is_demo(source: str) -> bool:
    demo = preflight.demo_weights()
    return demo is not None and source == str(demo)
