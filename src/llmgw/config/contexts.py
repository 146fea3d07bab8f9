"""The contexts file of `ctl`: which control planes there are and the token for each."""

import json
import os
from pathlib import Path

from llmgw.config.load import load
from llmgw.schema.value import Value


class Context(Value, frozen=True, kw_only=True):
    """One control plane as `ctl` reaches it."""

    api: str
    """Root URL of the API, such as `http://127.0.0.1:8800`."""
    token: str
    ca_file: str | None = None
    """Certificates that the API's is checked against beside those of the system: with `tls = "on"`, the cluster's
    `identity/authority.pem`."""


class Contexts(Value, frozen=True, kw_only=True):
    """The whole file."""

    current: str | None = None
    contexts: dict[str, Context] = {}


def contexts_path() -> Path:
    """Where the file lies: `LLMGW_CTL_CONFIG`, else the user's configuration folder."""
    named = os.environ.get("LLMGW_CTL_CONFIG")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "llmgw" / "ctl.toml"


def read_contexts(path: Path) -> Contexts:
    """Read the file; none is no contexts. Raises `InvalidInput` for a broken one."""
    try:
        if not path.exists():
            return Contexts()
    except OSError:
        pass  # told when it is read
    return load(Contexts, path, hint="it is the contexts file of ctl; LLMGW_CTL_CONFIG names another")


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Replace the file as a whole, readable by its owner only."""
    lines = [f"current = {json.dumps(contexts.current)}"] if contexts.current else []
    for name, context in contexts.contexts.items():
        lines += ["", f"[contexts.{json.dumps(name)}]"]
        lines += [f"api = {json.dumps(context.api)}", f"token = {json.dumps(context.token)}"]
        lines += [f"ca_file = {json.dumps(context.ca_file)}"] if context.ca_file else []
    replace_private(path, "\n".join(lines) + "\n")


def replace_private(path: Path, text: str) -> None:
    """Write a file with mode 0600 so that readers see the old or the new one, never a part.

    Raises `OSError`; then the old one is there, and nothing of the new one: a part of it would fill a full disk more.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
