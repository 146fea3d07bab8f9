"""Runs llama.cpp's own server, from the wheel xllamacpp, as one shard's engine.

    python -m llmgw.engines.llamacpp_launcher SHARD_ID  < settings.json

The shard's id is in argv so that orphans are found; settings and key come on standard input, as argv is public.
Says on standard output where it listens (`LLMGW-READY {…}`) or why not (`LLMGW-FAILED {…}`, exit status 11).
SIGTERM or SIGINT drains: it ends once no slot works, or when the grace is over; a second one ends it at once.
The parent's death does not end it: engines are adopted by the next agent.
"""

import importlib.metadata
import os
import select
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from llmgw.engines.adapter import Started
from llmgw.engines.flags import FlagValue, parse
from llmgw.engines.llamacpp_flags import FLAGS, GENERATING_BATCH
from llmgw.engines.llamacpp_settings import (
    EXIT_CONFIGURATION,
    FAILED_MARK,
    PROGRESS_MARK,
    READY_MARK,
    Failed,
    Progressing,
    Settings,
)
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Role
from llmgw.schema.value import Value

_CHECK_TENSORS_BELOW = 256 * 1024 * 1024
"""Bytes. Reading all numbers of such a file costs below half a second; damaged ones would answer nonsense."""
_SLOTS_POLL_S = 2.0
"""The server notices a client's leaving only in a quiet second, and each look at /slots disturbs it."""
_FLUSH_S = 0.1
"""For the last bytes of an answer to leave after its slot is free."""
_EXIT_S = 5
_SAY_AGAIN_S = 1.0


def main() -> NoReturn:
    """Run until asked to end. Never returns: destroying the server with requests open would hang."""
    settings = _settings(sys.stdin.buffer.read())
    server = _serve(settings)
    asked = _wakeup_on_signals()
    endpoint = server.listening_address
    version = importlib.metadata.version("xllamacpp")
    # On a full disk the line waits: an engine that serves must not end because nobody could be told yet.
    while not _say(READY_MARK, Started(endpoint=endpoint, pid=os.getpid(), version=version)):
        if select.select([asked], [], [], _SAY_AGAIN_S)[0]:
            break
    select.select([asked], [], [])
    os.read(asked, 1)
    _drain(endpoint, settings, asked)
    os._exit(0)


def fill(params: Any, settings: Settings, size_bytes: int) -> None:
    """Set llama.cpp's parameters. Raises `InvalidInput` for a flag off the list."""
    params.model.path = settings.path
    params.model_alias = {settings.model}
    params.api_keys = [settings.key]
    params.hostnames = [settings.host]
    params.port = 0
    params.ui = False
    params.offline = True
    params.endpoint_metrics = True
    params.n_threads_http = max(64, 2 * settings.slots + 16)
    params.sse_ping_interval = 5
    params.verbosity = settings.verbosity
    # Fail loudly rather than shrink the context behind our back.
    params.fit_params = False
    params.n_parallel = settings.slots
    params.n_ctx = settings.context * settings.slots
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.check_tensors = size_bytes < _CHECK_TENSORS_BELOW
    params.n_batch = params.n_ubatch = max(GENERATING_BATCH, settings.slots)
    if settings.chat_template is not None:
        params.chat_template = settings.chat_template
    if settings.role in {Role.EMBED, Role.RERANK}:
        # A text is pooled whole: it must fit one batch.
        params.embedding = True
        params.n_batch = params.n_ubatch = settings.context


def apply_flags(params: Any, settings: Settings, engine: Any) -> None:
    """Set what the operator asked for. `engine` is the wheel's module, which has the enumerations."""
    if settings.role is Role.RERANK:
        params.pooling_type = engine.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
    for name, value in parse(settings.flags, FLAGS, settings.role).items():
        flag = FLAGS[name]
        owner, _, attribute = flag.target.rpartition(".")
        setattr(getattr(params, owner) if owner else params, attribute, _native(engine, flag.enum, value))
    params.n_ubatch = min(params.n_ubatch, params.n_batch)


def _native(engine: Any, enum: str | None, value: FlagValue) -> Any:
    return value if enum is None else getattr(getattr(engine, enum), str(value))


def _settings(text: bytes) -> Settings:
    try:
        return msgspec.json.decode(text, type=Settings)
    except msgspec.ValidationError as error:
        _fail(str(error), cause="The launcher's settings on standard input are not what this version expects")
    except msgspec.DecodeError as error:
        # Settings of any version are whole JSON: these end before their end.
        _fail(str(error), cause="The start was cut short: the agent ended before the engine knew what to run", cut=True)


def _serve(settings: Settings) -> Any:
    size = _size(settings.path)
    _say(PROGRESS_MARK, Progressing(doing=f"loading {size / 2**20:.1f} MiB of weights"))
    try:
        import xllamacpp
    except ImportError as error:
        _fail(str(error), cause=f"llama.cpp cannot be loaded on this node: {error}")
    params = xllamacpp.CommonParams()
    try:
        fill(params, settings, size)
        apply_flags(params, settings, xllamacpp)
        return xllamacpp.Server(params)
    except InvalidInput as error:
        _fail(error.message, cause=error.message)
    except (RuntimeError, ValueError) as error:
        # The cause is in the engine's own log lines.
        _fail(str(error))


def _size(path: str) -> int:
    if not path.startswith("/"):
        _fail(f"no absolute path: {path}", cause=f"The source {path} is no path on this node, and nothing fetches it")
    try:
        return Path(path).stat().st_size
    except OSError:
        # llama.cpp says itself, and better, why it cannot open the file.
        return 0


def _wakeup_on_signals() -> int:
    """Give a descriptor that becomes readable at SIGTERM or SIGINT.

    Called only now: a handler of Python's would not run while the server loads, and until here the default, to end
    at once, is right.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return readable


def _drain(endpoint: str, settings: Settings, asked: int) -> None:
    """Wait until no slot works, the grace is over, or somebody asks again."""
    end = time.monotonic() + settings.grace_s
    while _working(endpoint, settings.key):
        left = end - time.monotonic()
        if left <= 0:
            return
        again, _, _ = select.select([asked], [], [], min(_SLOTS_POLL_S, left))
        if again:
            return
    time.sleep(_FLUSH_S)


def _working(endpoint: str, key: str) -> bool:
    """Look whether a slot is at work; an engine too busy to answer is."""
    # The address is our own server's.
    request = urllib.request.Request(f"{endpoint}/slots", headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - as said
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=1.0) as answer:
            slots = msgspec.json.decode(answer.read())
    except (OSError, msgspec.DecodeError):
        return True
    return any(slot.get("is_processing") for slot in slots)


def _fail(error: str, *, cause: str | None = None, cut: bool = False) -> NoReturn:
    _say(FAILED_MARK, Failed(error=error, cause=cause, interrupted=cut))
    # An orderly exit, as no server is left to be destroyed: os._exit would lose what the engine's log thread still
    # has to write, which is the cause. The alarm ends an exit that hangs.
    signal.alarm(_EXIT_S)
    sys.exit(EXIT_CONFIGURATION)


def _say(mark: str, content: Value) -> bool:
    """Write one line. False when the log took none of it, or only a part: its disk is full."""
    # One write, on a line of its own: the engine's threads write to the same log.
    line = b"\n" + mark.encode() + msgspec.json.encode(content) + b"\n"
    try:
        return os.write(sys.stdout.fileno(), line) == len(line)
    except OSError:
        return False


if __name__ == "__main__":
    main()
