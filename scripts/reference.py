"""Writes docs/reference from the code: configuration, command line, metrics, errors. `--check` only compares."""

import re
import sys
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import click
import msgspec

from llmgw.cli.main import cli
from llmgw.config.agent import AgentConfig
from llmgw.config.door import DoorConfig
from llmgw.config.example import field_texts, render
from llmgw.config.gateway import GatewayConfig
from llmgw.config.server import ServerConfig
from llmgw.schema import errors
from llmgw.server.http.app import ROUTES
from llmgw.server.http.typed_route import Nothing
from llmgw.telemetry.metrics import TABLE

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make docs` from the code; do not edit. -->\n"


def main() -> None:
    """Write the pages, or with `--check` name those that are out of step and end with 1."""
    pages = {
        "configuration.md": configuration(),
        "cli.md": command_line(),
        "metrics.md": metrics(),
        "errors.md": error_codes(),
        "api.md": admin_api(),
    }
    stale = [name for name, text in pages.items() if _read(FOLDER / name) != text]
    if "--check" in sys.argv:
        if stale:
            sys.exit(f"out of step with the code: {', '.join(stale)}; run make docs")
        return
    for name in stale:
        (FOLDER / name).write_text(pages[name])


def configuration() -> str:
    """Give the example file of each process."""
    parts = [NOTE, "# Configuration\n\nOne TOML file per process. Unknown keys are errors that name the nearest key.\n"]
    for name, kind in (
        ("server", ServerConfig),
        ("gateway", GatewayConfig),
        ("agent", AgentConfig),
        ("door", DoorConfig),
    ):
        parts.append(f"## llmgw {name}\n\n```toml\n{render(kind, name)}```\n")
    return "\n".join(parts)


def command_line() -> str:
    """Give the help text of every command."""
    parts = [
        NOTE,
        "# Command line\n\nExit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 not reachable or not the API.\n",
    ]
    context = click.Context(cli, info_name="llmgw", terminal_width=100, max_content_width=100)
    parts.extend(f"## {path}\n\n```\n{text}\n```\n" for path, text in _helps(context))
    return "\n".join(parts)


def metrics() -> str:
    """Give the table of metrics."""
    lines = [NOTE, "# Metrics\n", "| name | type | labels | meaning |", "| --- | --- | --- | --- |"]
    for metric in TABLE:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        lines.append(f"| `{name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |")
    return "\n".join(lines) + "\n"


def error_codes() -> str:
    """Give the codes of the admin API's errors."""
    lines = [NOTE, "# Errors of the admin API\n"]
    lines.append('Shape: `{"error": {"code", "message", "hint", "field", "allowed"}}`.\n')
    lines += ["| code | status | meaning |", "| --- | --- | --- |"]
    for kind in _tree(errors.LlmgwError):
        if kind.__module__ == errors.__name__:
            lines.append(f"| `{kind.code}` | {kind.status} | {(kind.__doc__ or '').splitlines()[0]} |")
    return "\n".join(lines) + "\n"


def admin_api() -> str:
    """Give every path of the admin API with its role, body and answer."""
    lines = [
        NOTE,
        "# Admin API\n",
        "All paths lie below `/api/v1` and take and give JSON; tokens go into `Authorization: Bearer …`. The",
        "full description, with every schema, is `GET /api/v1/openapi.json`. `/healthz` and `/leader` need no token;",
        "`/metrics` takes a viewer's.\n",
        "| call | role | what it does | body | answer |",
        "| --- | --- | --- | --- | --- |",
    ]
    bodies: dict[str, type] = {}
    for route in sorted(ROUTES, key=lambda route: (route.tag, route.path, route.method)):
        path = re.sub(r"{(\w+)(:\w+)?}", r"{\1}", route.path)
        shown = []
        for kind in (route.body, route.answer):
            if kind is Nothing:
                shown.append("")
                continue
            bodies[kind.__name__] = kind
            shown.append(f"[{kind.__name__}](#{kind.__name__.lower()})")
        lines.append(f"| `{route.method} {path}` | {route.role} | {route.summary} | {' | '.join(shown)} |")
    for name, kind in sorted(bodies.items()):
        lines += [
            "",
            f"## {name}",
            "",
            (kind.__doc__ or "").strip(),
            "",
            "| field | type | meaning |",
            "| --- | --- | --- |",
        ]
        texts = field_texts(kind)
        for field in msgspec.structs.fields(kind):
            meaning = texts.get(field.name, "").replace("|", "\\|")
            lines.append(f"| `{field.encode_name}` | {_type(field.type)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _type(kind: object) -> str:
    """Say a type in words: `list of string`, `integer or null`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(inner[0])
    if origin in {Union, UnionType}:
        return " or ".join(_type(one) for one in inner)
    if origin in {tuple, list}:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"map of {_type(inner[1])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " / ".join(f"`{member.value}`" for member in kind)
    return _WORDS.get(getattr(kind, "__name__", ""), getattr(kind, "__name__", str(kind)))


_WORDS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "NoneType": "null",
    "datetime": "time (RFC 3339)",
    "Any": "anything",
}


def _helps(context: click.Context) -> list[tuple[str, str]]:
    found = [(context.command_path, context.command.get_help(context))]
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                found += _helps(
                    click.Context(child, info_name=name, parent=context, terminal_width=100, max_content_width=100)
                )
    return found


def _tree(kind: type[errors.LlmgwError]) -> list[type[errors.LlmgwError]]:
    return [kind, *(inner for child in kind.__subclasses__() for inner in _tree(child))]


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    main()
