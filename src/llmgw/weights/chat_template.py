"""Whether a model folder has a chat template of its own: without one an engine refuses to chat."""

from pathlib import Path

from llmgw.weights.files import ModelFileError, read_json

_CONFIG = "tokenizer_config.json"
FILES = (_CONFIG, "chat_template.jinja", "chat_template.json")
"""Where it may be written; of these the first is there also without one."""
_MISTRAL = "tekken.json"
"""A tokenizer that renders chats itself."""


def is_there(folder: Path) -> bool | None:
    """Say whether there is one; `None` when nothing tells."""
    if any((folder / name).exists() for name in (*FILES[1:], _MISTRAL)):
        return True
    if not (folder / _CONFIG).exists():
        return None
    try:
        return bool(read_json(folder / _CONFIG, dict[str, object]).get("chat_template"))
    except ModelFileError:
        return None  # the engine will say what is wrong with it
