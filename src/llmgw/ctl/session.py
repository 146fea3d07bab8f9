"""One call of `ctl`: where the API is, and how answers are printed."""

import os
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import click
import msgspec

from llmgw.config.contexts import contexts_path, read_contexts
from llmgw.ctl.output import dump
from llmgw.link.api import Api, NotTheApi
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value

T = TypeVar("T")


class Session:
    """Handed to every command by `pass_session`."""

    def __init__(self, *, context: str | None, output: str) -> None:
        self._context = context
        self._output = output
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """The API, found at its first use."""
        if self._api is None:
            found = find_api(self._context)
            self._api = Api(found.root, found.token, ca_file=found.ca_file)
        return self._api

    def api_within(self, timeout_s: float) -> Api:
        """Give the API for calls that take long."""
        found = find_api(self._context)
        return Api(found.root, found.token, ca_file=found.ca_file, timeout_s=timeout_s)

    def show(self, answer: Any, kind: type[T], table: Callable[[T], str]) -> None:
        """Print an answer: as it came with `-o json|yaml`, else by `table` over its type."""
        if self._output != "table":
            click.echo(dump(answer, self._output), nl=False)
            return
        click.echo(table(self.read(answer, kind)))

    def read(self, answer: Any, kind: type[T]) -> T:
        """Give an answer as a value. Raises `NotTheApi` for one that cannot be read."""
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError as error:
            raise NotTheApi(
                f"the answer cannot be understood: {error}",
                hint="is it the API of llmgw, and of the release this ctl is of?",
            ) from error

    def say(self, text: str, answer: Any) -> None:
        """Print a sentence, or the answer itself with `-o json|yaml`."""
        click.echo(text if self._output == "table" else dump(answer, self._output).rstrip("\n"))


class ApiAddress(Value, frozen=True, kw_only=True):
    """Where the API is, and what it is asked with."""

    root: str
    token: str | None
    ca_file: str | None


def find_api(context: str | None) -> ApiAddress:
    """Find the API. Raises `InvalidInput` saying where it looked."""
    address = os.environ.get("LLMGW_API")
    if address and context is None:
        return ApiAddress(root=address, token=os.environ.get("LLMGW_TOKEN"), ca_file=os.environ.get("LLMGW_CA_FILE"))
    path = contexts_path()
    contexts = read_contexts(path)
    name = context or contexts.current
    if name is None:
        raise InvalidInput(
            f"no control plane is known: LLMGW_API is not set and {path} names no context",
            hint="start one with llmgw up, or set LLMGW_API and LLMGW_TOKEN",
        )
    if name not in contexts.contexts:
        known = tuple(contexts.contexts)
        raise InvalidInput(
            f"no context {name!r} in {path}",
            hint=f"known contexts: {', '.join(known) or 'none'}",
            field="context",
            allowed=known,
        )
    found = contexts.contexts[name]
    return ApiAddress(root=found.api, token=found.token, ca_file=found.ca_file)


pass_session = click.make_pass_decorator(Session)
"""Hands the session to a command as its first argument."""


def segment(name: str) -> str:
    """Encode a name for a path: model names may hold slashes."""
    return quote(name, safe="")
