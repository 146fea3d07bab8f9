"""Files of policies: YAML (so JSON too) with the top key `policies`."""

import json
import sys
from pathlib import Path
from typing import Any

from llmgw.schema.errors import InvalidInput

STDIN = "-"
_HINT = "a file of policies has one top key, policies, with a list; llmgw ctl guard policy export shows one"


def read_policies(file: str) -> dict[str, Any]:
    """Read a file; `-` is standard input. Raises `InvalidInput`; what policies may say, the API checks."""
    import yaml

    text = sys.stdin.read() if file == STDIN else _text(file)
    try:
        data = yaml.safe_load(text)
        json.dumps(data)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f", line {place.line + 1}" if place is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InvalidInput(f"{file} is not YAML: {problem}{where}", field="file") from error
    except TypeError as error:
        raise InvalidInput(f"{file}: {error}", hint="put dates and times into quotes", field="file") from error
    if not isinstance(data, dict) or "policies" not in data:
        raise InvalidInput(f"{file} does not say policies", hint=_HINT, field="policies")
    return data


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not text in UTF-8", field="file") from error
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}", field="file") from error
