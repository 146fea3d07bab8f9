"""A client of the admin API on the standard library: it must start fast and need nothing."""

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from llmgw.schema.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    LlmgwError,
    NoLeader,
    NotFound,
    StoreUnavailable,
    Unauthorized,
)

_BY_STATUS: dict[int, type[LlmgwError]] = {
    400: InvalidInput,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
}
_BY_CODE: dict[str, type[LlmgwError]] = {NoLeader.code: NoLeader, StoreUnavailable.code: StoreUnavailable}


class Unreachable(LlmgwError):
    """Nothing answered at the address, or not in time."""

    code = "unreachable"


class NotTheApi(LlmgwError):
    """Something answered, and it is not the admin API."""

    code = "not_the_api"


MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""A fleet of 10,000 nodes, each with its facts, is below 100 MB."""
_PART = 256 * 1024


class Api:
    """The admin API at one address. `timeout_s` bounds each call.

    `ca_file`: certificates that the API's is checked against beside those of the system. Raises `InvalidInput`.
    """

    def __init__(
        self, root: str, token: str | None, *, timeout_s: float = 10.0, ca_file: str | Path | None = None
    ) -> None:
        parts = _split(root)
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise InvalidInput("the token has characters that none has", hint="is it cut or quoted?", field="token")
        self._root = root.rstrip("/")
        self._tls = _tls(ca_file) if parts.scheme == "https" else None
        self._host = parts.hostname or ""
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout_s

    def get(self, path: str) -> Any:
        """GET `path` (with leading slash); gives the decoded JSON."""
        return self.call("GET", path)

    def post(self, path: str, body: object | None = None) -> Any:
        """POST a JSON body."""
        return self.call("POST", path, {} if body is None else body)

    def patch(self, path: str, body: object) -> Any:
        """PATCH with a JSON body."""
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> Any:
        """DELETE `path`."""
        return self.call("DELETE", path)

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        """Make one call. Raises `Unreachable`, `NotTheApi`, or the API's own error."""
        status, kind, data = self._exchange(method, path, body)
        try:
            answer = json.loads(data) if data else None
        except (ValueError, RecursionError):
            raise self._not_the_api(status, kind) from None
        if status >= http.client.BAD_REQUEST:
            raise self._error(status, kind, answer)
        if answer is not None and not isinstance(answer, dict):
            raise self._not_the_api(status, kind)
        return answer

    def _exchange(self, method: str, path: str, body: object | None) -> tuple[int, str, bytes]:
        connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
            if self._tls is not None
            else http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        )
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._prefix + path, body=payload, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers.get_content_type(), self._read(response)
        except TimeoutError as error:
            raise Unreachable(
                f"{self._root} did not answer within {self._timeout:g} s", hint="is the control plane overloaded?"
            ) from error
        except http.client.HTTPException as error:
            raise NotTheApi(f"{self._root} does not speak HTTP ({type(error).__name__})", hint=_HINT) from error
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"{self._root} is not trusted: {error.verify_message}", hint=_TRUST) from error
        except ssl.SSLError as error:
            raise NotTheApi(f"{self._root} does not speak TLS ({error.reason})", hint=_HINT) from error
        except OSError as error:
            raise Unreachable(f"cannot reach {self._root}: {error.strerror or error}", hint=_HINT) from error
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """Read the body whole, in bounded time and memory: what answers may not be the API."""
        deadline = time.monotonic() + self._timeout
        body = bytearray()
        while part := response.read1(_PART):
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise NotTheApi(f"{self._root} answered with more than {MAX_ANSWER_BYTES} bytes", hint=_HINT)
            if time.monotonic() > deadline:
                raise TimeoutError
        return bytes(body)

    def _error(self, status: int, kind: str, answer: Any) -> LlmgwError:
        inner = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(inner, dict) or "code" not in inner:
            return self._not_the_api(status, kind)
        known = _BY_CODE.get(inner["code"]) or _BY_STATUS.get(status, LlmgwError)
        allowed = inner.get("allowed")
        return known(
            str(inner.get("message", "")),
            hint=inner.get("hint"),
            field=inner.get("field"),
            allowed=tuple(allowed) if isinstance(allowed, list) else None,
            code=str(inner["code"]),
        )

    def _not_the_api(self, status: int, kind: str) -> NotTheApi:
        what = "a web page" if kind == "text/html" else f"{kind} (status {status})"
        return NotTheApi(f"{self._root} answered with {what}, not with the API of llmgw", hint=_HINT)


def _split(root: str) -> SplitResult:
    try:
        parts = urlsplit(root)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and root.isprintable()
    except ValueError:
        usable = False
    if not usable or " " in root:
        raise InvalidInput(f"{root!r} is not the address of an API", hint="write http://HOST:PORT", field="api")
    return parts


def _tls(ca_file: str | Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is None:
        return context
    try:
        context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        why = "it holds no certificate in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidInput(f"cannot read certificates in {ca_file}: {why}", hint=_TRUST, field="ca_file") from error
    return context


_TRUST = (
    "name the cluster's authority (identity/authority.pem in the control plane's data_dir) as LLMGW_CA_FILE, "
    "or as ca_file in the contexts file"
)
_HINT = "check the address: the API's port is 8800 by default, not the gateway's 8000"
