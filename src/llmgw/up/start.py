"""`llmgw up`: start the supervisor, or find the one that runs."""

import fcntl
import os
import re
import sys
from pathlib import Path

import msgspec

from llmgw.config import disk
from llmgw.config.data_dir import make_data_dir
from llmgw.schema.admin.model import MAX_NAME, NAME_PATTERN
from llmgw.schema.errors import Conflict, InvalidInput, LlmgwError
from llmgw.up import port, preflight
from llmgw.up.configs import write_configs
from llmgw.up.layout import Layout, Request
from llmgw.up.process import Process, alive
from llmgw.up.state import UpState, read_state, write_state
from llmgw.up.supervisor import spawn

GATEWAY_PORT = 8000
API_PORT = 8800
AGENT_PORT = 8801
DOOR_PORT = 8802


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What runs now."""

    layout: Layout
    state: UpState
    source: str | None
    """Weights to serve; `None`: whatever the fleet has already, else the demo model."""
    name: str | None
    first: bool
    """False when another `llmgw up` was found running."""
    adopted: tuple[Process, ...] = ()


def start(request: Request) -> Started:
    """Start everything that does not run yet. Raises an error that names what is in the way; then nothing changed."""
    layout = Layout(root=request.data_dir.absolute())
    _check_request(request)
    make_data_dir(str(layout.root))
    lock = _try_lock(layout.lock)
    if lock is None:
        return _found(layout, request)
    try:
        return _start(layout, request, lock)
    except OSError as error:
        if not disk.is_want_of_room(error):
            raise
        raise LlmgwError(
            f"the disk of {layout.root} is full", hint="make room there, or choose another folder with --data-dir"
        ) from error
    finally:
        os.close(lock)  # the supervisor holds the same open file


def _start(layout: Layout, request: Request, lock: int) -> Started:
    preflight.check_cpu_engine()
    source = resolve_source(request.model)
    before = read_state(layout.state)
    adopted = tuple(child for child in before.children if alive(child)) if before else ()
    state = _kept(before, adopted, request) if before and adopted else _fresh(before, request)
    state = msgspec.structs.replace(state, model=source, name=request.name)
    write_configs(layout, state, weights_dirs=_weights_dirs(source))
    write_state(layout.state, state)
    argv = [sys.executable, "-m", "llmgw.up.supervisor", str(layout.root), str(lock)]
    spawn(argv, layout.log("supervisor"), keep_fd=lock)
    return Started(layout=layout, state=state, source=source, name=request.name, first=True, adopted=adopted)


def resolve_source(model: str | None) -> str | None:
    """Make a path absolute and check that it can be read; hub sources pass as they are."""
    if model is None or model.startswith("hf:"):
        return model
    path = Path(model).expanduser().absolute()
    if not path.exists():
        raise InvalidInput(f"no weights at {path}", hint="give the path of a GGUF file with --model", field="model")
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder", hint="give the path of a GGUF file with --model", field="model")
    if not os.access(path, os.R_OK):
        raise InvalidInput(f"{path} cannot be read", hint="check its permissions", field="model")
    return str(path)


def _check_request(request: Request) -> None:
    name = request.name
    if name is not None and not (len(name) <= MAX_NAME and re.fullmatch(NAME_PATTERN, name)):
        raise InvalidInput(
            f"--name {name[:MAX_NAME]!r} is no name for a model",
            hint=f"use 1 to {MAX_NAME} letters, digits and . _ - : /, with something between two slashes",
            field="name",
        )
    if request.gateway_port is not None and request.gateway_port == request.api_port:
        raise InvalidInput(
            f"--gateway-port and --api-port are both {request.api_port}", hint="give them two ports", field="api_port"
        )


def _fresh(before: UpState | None, request: Request) -> UpState:
    gateway = request.gateway_port or (before.gateway_port if before else GATEWAY_PORT)
    api = request.api_port or (before.api_port if before else API_PORT)
    port.require_free(gateway, what="gateway", option="--gateway-port")
    port.require_free(api, what="API", option="--api-port")
    return UpState(
        gateway_port=gateway,
        api_port=api,
        agent_port=port.free_or_other(AGENT_PORT),
        door_port=port.free_or_other(DOOR_PORT),
    )


def _kept(before: UpState, adopted: tuple[Process, ...], request: Request) -> UpState:
    for wanted, has, option in (
        (request.gateway_port, before.gateway_port, "--gateway-port"),
        (request.api_port, before.api_port, "--api-port"),
    ):
        if wanted is not None and wanted != has:
            raise Conflict(
                f"processes of an earlier llmgw up still run with {option} {has}",
                hint=f"run without {option}, or end them first: llmgw down",
            )
    names = {child.name for child in adopted}
    for what, number, option in (
        ("gateway", before.gateway_port, "--gateway-port"),
        ("server", before.api_port, "--api-port"),
    ):
        if what not in names:
            port.require_free(number, what=what, option=option)
    return msgspec.structs.replace(before, supervisor=None, children=adopted)


def _found(layout: Layout, request: Request) -> Started:
    state = read_state(layout.state)
    if state is None:
        raise LlmgwError(f"another llmgw up is starting in {layout.root}", hint="try again in a moment")
    source = resolve_source(request.model)
    asked = [
        (request.gateway_port, state.gateway_port, "--gateway-port"),
        (request.api_port, state.api_port, "--api-port"),
        (source, state.model, "--model"),
        (request.name, state.name, "--name"),
    ]
    for wanted, has, option in asked:
        if wanted is None or wanted == has:
            continue
        shown = has if has is not None else "the default"
        raise Conflict(
            f"llmgw already runs in {layout.root}, with {option} {shown}; nothing was changed",
            hint="serve another model on it with: llmgw ctl model serve NAME --source PATH; or end it: llmgw down",
        )
    return Started(layout=layout, state=state, source=state.model, name=state.name, first=False)


def _weights_dirs(source: str | None) -> tuple[Path, ...]:
    folders: list[Path] = []
    demo = preflight.demo_weights()
    if demo is not None:
        folders.append(demo.parent)
    if source is not None and not source.startswith("hf:"):
        folders.append(Path(source).parent if Path(source).is_file() else Path(source))
    return tuple(dict.fromkeys(folders))


def _try_lock(path: Path) -> int | None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
