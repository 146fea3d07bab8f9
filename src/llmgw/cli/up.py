"""`llmgw up` and `llmgw down`."""

import signal
import sys
from pathlib import Path
from types import FrameType

import click

from llmgw.cli.main import print_error
from llmgw.up import down as down_flow
from llmgw.up.layout import Request, default_root
from llmgw.up.process import alive, wait_gone
from llmgw.up.ready import NotReady, describe, wait_ready
from llmgw.up.start import Started, start
from llmgw.up.state import read_state

_DATA_DIR = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="LLMGW_DATA_DIR",
    help="Where everything is kept. Default: ~/.local/share/llmgw",
)


@click.command()
@_DATA_DIR
@click.option(
    "--gateway-port", type=click.IntRange(1, 65535), envvar="LLMGW_GATEWAY_PORT", help="Port for /v1.  [default: 8000]"
)
@click.option(
    "--api-port",
    type=click.IntRange(1, 65535),
    envvar="LLMGW_API_PORT",
    help="Port for API and console.  [default: 8800]",
)
@click.option("--model", metavar="PATH", help="GGUF file to serve. Default: the small demo model.")
@click.option("--name", help="Name clients use for the model. Default: from the file.")
@click.option("--detach", is_flag=True, help="Return once the model answers; `llmgw down` stops everything.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the model's first answer.",
)
def up(
    *,
    data_dir: Path | None,
    gateway_port: int | None,
    api_port: int | None,
    model: str | None,
    name: str | None,
    detach: bool,
    wait: float,
) -> None:
    """Serve a model on this machine: control plane, gateway, agent and engine, all on loopback.

    Without --model it serves the models it served before, or the demo model. In the foreground, Ctrl-C stops
    everything.
    """
    root = data_dir or default_root()
    request = Request(data_dir=root, gateway_port=gateway_port, api_port=api_port, model=model, name=name)
    started = start(request)
    foreground = started.first and not detach
    if foreground:
        _stop_on_signals()
    click.echo(_opening(started), err=True)
    try:
        credentials = wait_ready(started, timeout_s=wait, say=lambda text: click.echo(text, err=True))
        click.echo(describe(started, credentials))
        if foreground:
            click.echo("Ctrl-C stops everything.", err=True)
            _follow(started)
    except NotReady as error:
        if not foreground:
            print_error(error)
            sys.exit(1)
        click.echo(f"llmgw: {error.message}\nstopping …", err=True)
        down_flow.down(root)
        click.echo(f"stopped; the logs stay in {started.layout.root}", err=True)
        sys.exit(1)
    except _Interrupted:
        click.echo("\nstopping …", err=True)
        _ignore_signals()
        down_flow.down(root)
        click.echo("stopped; nothing is left running", err=True)


@click.command()
@_DATA_DIR
def down(*, data_dir: Path | None) -> None:
    """Stop everything that `llmgw up` started, engines included."""
    if down_flow.down(data_dir or default_root()):
        click.echo("stopped; nothing is left running")
    else:
        click.echo("nothing was running")


class _Interrupted(BaseException):
    """The user wants everything to stop."""


def _opening(started: Started) -> str:
    if not started.first:
        return f"llmgw already runs in {started.layout.root}"
    if started.adopted:
        names = ", ".join(f"{child.name} (pid {child.pid})" for child in started.adopted)
        return f"llmgw takes over what still runs: {names}"
    return f"llmgw starts in {started.layout.root}"


def _follow(started: Started) -> None:
    """Stay until the supervisor ends (somebody ran `llmgw down`, or it was killed)."""
    while True:
        state = read_state(started.layout.state)
        if state is None or state.supervisor is None:
            return
        if not alive(state.supervisor):
            click.echo("the supervisor ended; what it started still runs. Take it over with: llmgw up", err=True)
            sys.exit(1)
        wait_gone(state.supervisor, timeout_s=5.0)


def _stop_on_signals() -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise _Interrupted

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
