"""Rendering a commented example file from a configuration struct: its docstrings are the documentation."""

import ast
import inspect
import itertools
import json
import textwrap
from typing import Any

import msgspec

_EXAMPLES: dict[str, Any] = {
    "data_dir": "/var/lib/llmgw",
    "servers": ["127.0.0.1:8801"],
    "token_file": "/var/lib/llmgw/agent-token",
    "control_socket": "/var/lib/llmgw/hub.sock",
    "weights_dirs": ["/srv/models"],
    "labels": {"rack": "a1"},
}
"""Values for keys without a default, or whose default says little."""


_SET = frozenset({"token_file", "control_socket"})
"""Keys with a default that an example sets: it would not be a valid file without one of them."""


def render(kind: type[msgspec.Struct], process: str) -> str:
    """Give a TOML file with every key of `kind`: required ones set, the others commented out at their default."""
    texts = field_texts(kind)
    lines = [f"# llmgw {process}: every key with its default. Keys without a comment sign must be set.", ""]
    tables: list[str] = []
    for field in msgspec.structs.fields(kind):
        value = _EXAMPLES.get(field.name, _default(field))
        comment = [f"# {line}" for line in textwrap.wrap(texts.get(field.name, ""), 100)]
        if field.name in _TABLES:
            tables += [*comment, *_TABLES[field.name], ""]
            continue
        sign = "" if field.required or field.name in _SET else "# "
        shown = '""' if value is None else _toml(value)
        lines += [*comment, f"{sign}{field.encode_name} = {shown}", ""]
    return "\n".join([*lines, *tables]).rstrip() + "\n"


def field_texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Give the docstring below each field of `kind`, read from its source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    texts: dict[str, str] = {}
    for before, after in itertools.pairwise(body):
        if not (isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            texts[before.target.id] = " ".join(after.value.value.split())
    return texts


_TABLES = {
    "fabrics": (
        "# [[fabrics]]",
        '# name = "ib-a"',
        '# hcas = ["mlx5_0", "mlx5_1:1"]',
        "# rate_gbps = 400",
        '# interface = "ib0"',
        '# address = "10.1.0.17"',
    ),
    "devices": (
        "# [[devices]]",
        '# id = "GPU-0"',
        "# index = 0",
        '# class = "h100-80gb"',
        "# memory_bytes = 85899345920",
    ),
}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    return json.dumps(value)
