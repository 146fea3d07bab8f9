"""Waiting until the model answers, with progress, and saying how to use it."""

import http.client
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import msgspec

from llmgw.config.contexts import Context, contexts_path, read_contexts, replace_private, write_contexts
from llmgw.link.api import Api, Unreachable
from llmgw.schema.errors import LlmgwError, NotFound, StoreError, Unauthorized
from llmgw.up.configs import api_url, base_url
from llmgw.up.demo import demo_profile, demo_source, model_name
from llmgw.up.process import alive
from llmgw.up.start import Started
from llmgw.up.state import read_state

Say = Callable[[str], None]

_STEP_S = 0.1
_ANSWER_TIMEOUT_S = 60.0


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """`credentials.json`: the one place where the first key and token stay readable (mode 0600)."""

    api_key: str
    admin_token: str
    base_url: str | None = None
    api_url: str | None = None
    console_url: str | None = None
    model: str | None = None


class NotReady(LlmgwError):
    """The model does not answer, and waiting longer will not help or was not wanted."""

    code = "not_ready"


def wait_ready(started: Started, *, timeout_s: float, say: Say) -> Credentials:
    """Serve the model if it is not served yet and wait until it answers.

    Raises `NotReady` with the reason when it is parked, or after `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    progress = _Progress(say)
    progress.tell("starting the control plane")
    credentials = _credentials(started, deadline)
    api = Api(api_url(started.state), credentials.admin_token)
    name = _served(api, started, deadline)
    credentials = msgspec.structs.replace(
        credentials,
        base_url=base_url(started.state),
        api_url=api_url(started.state),
        console_url=api_url(started.state) + "/",
        model=name,
    )
    _remember(started, credentials)
    while True:
        state, reason = _model_state(api, name)
        progress.tell(f"{name}: {reason or state}")
        if state == "parked":
            raise NotReady(f"{name} does not start: {reason}", hint=_look(name))
        if state == "ready" and _answers(started, credentials, name):
            progress.tell(f"{name}: answers")
            return credentials
        _pause(started, deadline, f"{name} does not answer yet: {reason or state}", hint=_look(name))


def describe(started: Started, credentials: Credentials) -> str:
    """Say how to use what runs: base URL, key, console, a curl that works as it is."""
    body = json.dumps(
        {
            "model": credentials.model,
            "temperature": 0,
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "What is the capital of France?"}],
        }
    )
    return f"""
  Base URL   {credentials.base_url}
  API key    {credentials.api_key}
  Console    {credentials.console_url}   (token: {credentials.admin_token})
  Model      {credentials.model}

  curl {credentials.base_url}/chat/completions \\
    -H 'Authorization: Bearer {credentials.api_key}' -H 'Content-Type: application/json' \\
    -d '{body}'

  Fleet      {command()} ctl status
  Stop       {command()} down
  Keys       {started.layout.credentials}
  Logs       {started.layout.root / "logs"}
"""


def command() -> str:
    """How the caller's shell finds `llmgw`: by its name when it is on the path, else as it was called."""
    called = Path(sys.argv[0])
    found = shutil.which("llmgw")
    return "llmgw" if called.name != "llmgw" or (found and Path(found).samefile(called)) else str(called)


def read_credentials(path: Path) -> Credentials | None:
    """Read the file; `None` while it is not (completely) there."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Credentials)
    except (OSError, msgspec.DecodeError):
        return None


class _Progress:
    """Says each step once, with the seconds since the start."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._since = time.monotonic()
        self._last = ""

    def tell(self, text: str) -> None:
        if text != self._last:
            self._say(f"  {time.monotonic() - self._since:5.1f} s  {text}")
            self._last = text


def _credentials(started: Started, deadline: float) -> Credentials:
    while True:
        credentials = read_credentials(started.layout.credentials)
        if credentials is not None and _api_answers(started, credentials):
            return credentials
        _pause(started, deadline, "the control plane does not answer", hint=f"its log: {started.layout.log('server')}")


def _api_answers(started: Started, credentials: Credentials) -> bool:
    try:
        Api(api_url(started.state), credentials.admin_token).get("/api/v1/summary")
    except (Unreachable, StoreError, Unauthorized):
        return False
    return True


def _served(api: Api, started: Started, deadline: float) -> str:
    """Make sure the model asked for is in the fleet; gives its name."""
    while True:
        models = api.get("/api/v1/models")["models"]
        source = started.source
        if source is None and models:
            return str(_main_model(started, models))
        source = source or demo_source()
        name = model_name(source, started.name)
        present = next((model for model in models if model["name"] == name), None)
        if present is not None:
            if present["source"] != source:
                raise NotReady(
                    f"a model {name} is there already, with source {present['source']}",
                    hint="choose another name with --name",
                )
            return name
        try:
            api.post("/api/v1/models", {"name": name, "source": source, "profile": demo_profile(source)})
        except LlmgwError as error:
            if error.code not in {"no_leader", "store_unavailable"}:
                raise
            _pause(started, deadline, "no control plane leads yet", hint="llmgw ctl status says more")
        else:
            return name


def _main_model(started: Started, models: list[dict[str, object]]) -> object:
    credentials = read_credentials(started.layout.credentials)
    names = [model["name"] for model in models]
    if credentials is not None and credentials.model in names:
        return credentials.model
    return names[0]


def _model_state(api: Api, name: str) -> tuple[str, str | None]:
    try:
        row = api.get(f"/api/v1/models/{quote(name, safe='')}")
    except NotFound:
        raise NotReady(f"the model {name} was removed meanwhile", hint="start it again: llmgw up") from None
    except LlmgwError as error:
        return "unknown", error.message
    model = row.get("model", row)
    return str(model.get("state", "unknown")), model.get("reason")


def _answers(started: Started, credentials: Credentials, name: str) -> bool:
    """One real request through the gateway."""
    connection = http.client.HTTPConnection("127.0.0.1", started.state.gateway_port, timeout=_ANSWER_TIMEOUT_S)
    body = json.dumps({"model": name, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]})
    headers = {"Authorization": f"Bearer {credentials.api_key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/v1/chat/completions", body=body, headers=headers)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _pause(started: Started, deadline: float, what: str, *, hint: str) -> None:
    if time.monotonic() > deadline:
        raise NotReady(what, hint=hint)
    state = read_state(started.layout.state)
    if state is not None and state.supervisor is not None and not alive(state.supervisor):
        raise NotReady("the supervisor ended", hint=f"its log: {started.layout.log('supervisor')}")
    time.sleep(_STEP_S)


def _remember(started: Started, credentials: Credentials) -> None:
    """Complete `credentials.json` and point ctl's context `local` at this fleet.

    What is so already is not written again: an `llmgw up` that finds another must work on a full disk too.
    """
    path = contexts_path()
    contexts = read_contexts(path)
    local = Context(api=str(credentials.api_url), token=credentials.admin_token)
    pointed = msgspec.structs.replace(contexts, current="local", contexts={**contexts.contexts, "local": local})
    try:
        if read_credentials(started.layout.credentials) != credentials:
            text = msgspec.json.format(msgspec.json.encode(credentials)).decode()
            replace_private(started.layout.credentials, text + "\n")
        if pointed != contexts:
            write_contexts(path, pointed)
    except OSError as error:
        message = f"it runs, but its address and keys cannot be written: {error.strerror}"
        raise NotReady(message, hint=f"look at the disks of {started.layout.root} and {path.parent}") from error


def _look(name: str) -> str:
    return f"everything else runs; look with: {command()} ctl model show {name}; stop with: {command()} down"
