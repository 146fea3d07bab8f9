"""Where a Prometheus is asked for history, and what may not be said about it."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from llmgw.config.tls import is_loopback
from llmgw.schema.errors import InvalidInput

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ADDRESS = "write its root address, such as http://127.0.0.1:9090"


def check_prometheus(
    url: str | None, *, token_file: str | None, ca_file: str | None, labels: Mapping[str, str]
) -> None:
    """Refuse an address that cannot be asked, or that would give the token away. Raises `InvalidInput`."""
    for name in labels:
        if not _LABEL.fullmatch(name):
            raise InvalidInput(
                f"prometheus_labels: {name!r} is not the name of a label",
                hint="letters, digits and underscores, no digit first",
                field="prometheus_labels",
            )
    if url is None:
        _refuse_idle(token_file, ca_file, labels)
        return
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "prometheus_url holds a user or password",
            hint="leave them out: a token belongs in the file that prometheus_token_file names",
            field="prometheus_url",
        )
    if parts.scheme not in {"http", "https"} or not host or port == 0 or parts.query or parts.fragment:
        raise InvalidInput(f"prometheus_url = {url!r} is not an address", hint=_ADDRESS, field="prometheus_url")
    if token_file is not None and parts.scheme == "http" and not is_loopback(host):
        raise InvalidInput(
            "prometheus_token_file: the token would cross the network in the clear",
            hint="use https in prometheus_url",
            field="prometheus_token_file",
        )
    if ca_file is not None and parts.scheme == "http":
        raise InvalidInput(
            "prometheus_ca_file says nothing about an address without TLS",
            hint="use https in prometheus_url, or leave it out",
            field="prometheus_ca_file",
        )


def _refuse_idle(token_file: str | None, ca_file: str | None, labels: Mapping[str, str]) -> None:
    given = {"prometheus_token_file": token_file, "prometheus_ca_file": ca_file, "prometheus_labels": labels}
    for key, value in given.items():
        if value:
            raise InvalidInput(f"{key} says nothing without prometheus_url", hint=_ADDRESS, field=key)
