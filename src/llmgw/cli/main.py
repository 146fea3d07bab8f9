"""The `llmgw` command."""

import sys
from typing import NoReturn

import click

from llmgw.ctl.exit_code import exit_code
from llmgw.ctl.lazy import LazyGroup
from llmgw.schema.errors import LlmgwError

_COMMANDS = {
    "up": ("llmgw.cli.up:up", "Serve a model on this machine, everything included."),
    "down": ("llmgw.cli.up:down", "Stop everything that `llmgw up` started."),
    "ctl": ("llmgw.ctl.main:ctl", "Look at the fleet and change it."),
    "server": ("llmgw.cli.processes:server", "Run a control plane."),
    "gateway": ("llmgw.cli.processes:gateway", "Run a gateway."),
    "agent": ("llmgw.cli.processes:agent", "Run a node's agent."),
    "door": ("llmgw.cli.processes:door", "Run a node's door (the agent starts it)."),
    "fake-nodes": ("llmgw.cli.fake_nodes:fake_nodes", "Join with nodes that are not there: tests, demos, planning."),
    "config": ("llmgw.cli.config:config", "Print example configuration files."),
}


@click.group(
    cls=LazyGroup,
    commands_from=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="llmgw", prog_name="llmgw")
def cli() -> None:
    """One address for the language models on your own machines."""


def main() -> None:
    """Run the command; errors for people go to standard error, without a traceback."""
    try:
        cli.main(prog_name="llmgw")
    except LlmgwError as error:
        _end(error)
    except BaseExceptionGroup as group:
        # A process's tasks run together; one that says why it cannot go on ends them all.
        ours, others = group.split(LlmgwError)
        if ours is None or others is not None:
            raise
        _end(_first(ours))


def _end(error: LlmgwError) -> NoReturn:
    print_error(error)
    sys.exit(exit_code(error))


def _first(group: BaseExceptionGroup[LlmgwError]) -> LlmgwError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def print_error(error: LlmgwError) -> None:
    """Write one error: what happened, then what to do."""
    click.echo(f"llmgw: {error.message}", err=True)
    if error.hint:
        click.echo(f"       {error.hint}", err=True)


if __name__ == "__main__":
    main()
