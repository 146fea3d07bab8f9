"""A click group that imports a command's module only when it is called."""

import difflib
import importlib
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands are named as `module:attribute`, with the help line given here so that `--help` imports nothing."""

    def __init__(self, *args: Any, commands_from: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._from = commands_from

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order they were declared."""
        del ctx
        return list(self._from)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in self._from:
            return None
        module, _, attribute = self._from[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when one is unknown."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self._from, n=1)
            if not near:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help lines without importing anything."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._from.items()])
