"""Errors that people see: one tree, one shape on the wire.

    LlmgwError
    ├── InvalidInput        400  the caller sent something wrong; `field` and `allowed` say what
    │   ├── TooLarge        413  the body is larger than the limit
    │   └── NotJson         415  the body is said to be something else than JSON
    ├── Unauthorized        401  no token, or not a valid one
    ├── Forbidden           403  the token may not do this
    ├── NotFound            404
    ├── Conflict            409  the thing exists already, or changed meanwhile
    ├── NoLeader            503  no control plane leads right now
    └── StoreError
        ├── StoreUnavailable    503  the store did not answer within its deadline
        │   └── StoreFull       503  the store's disk is full
        └── Fenced              409  the lease is not ours (any more): nothing was written

Each layer adds what it was doing and never repeats the inner text.
"""

from llmgw.schema.value import Value


class ErrorBody(Value, frozen=True, kw_only=True):
    """The inside of `{"error": …}` as the admin API answers it."""

    code: str
    message: str
    hint: str | None = None
    field: str | None = None
    allowed: tuple[str, ...] | None = None


class LlmgwError(Exception):
    """Base of all errors with a message for people.

    `message` says what happened and where; `hint` what to do next.
    """

    status = 500
    code = "internal"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        field: str | None = None,
        allowed: tuple[str, ...] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = field
        self.allowed = allowed
        if code is not None:
            self.code = code

    def body(self) -> ErrorBody:
        """Give the error as it goes over the wire."""
        return ErrorBody(code=self.code, message=self.message, hint=self.hint, field=self.field, allowed=self.allowed)


class InvalidInput(LlmgwError):
    """The caller sent something wrong; nothing was changed."""

    status = 400
    code = "invalid_input"


class TooLarge(InvalidInput):
    """The body is larger than the limit."""

    status = 413
    code = "too_large"


class NotJson(InvalidInput):
    """The body is said to be something else than JSON."""

    status = 415
    code = "not_json"


class Unauthorized(LlmgwError):
    """No token, or not a valid one."""

    status = 401
    code = "unauthorized"


class Forbidden(LlmgwError):
    """The token is valid and may not do this."""

    status = 403
    code = "forbidden"


class NotFound(LlmgwError):
    """The named thing does not exist."""

    status = 404
    code = "not_found"


class Conflict(LlmgwError):
    """The thing exists already, or changed since the caller read it."""

    status = 409
    code = "conflict"


class NoLeader(LlmgwError):
    """No control plane leads right now, so nothing may be changed."""

    status = 503
    code = "no_leader"


class StoreError(LlmgwError):
    """The store could not do what was asked."""

    status = 503
    code = "store_error"


class StoreUnavailable(StoreError):
    """The store did not answer within its deadline, or the connection broke."""

    code = "store_unavailable"


class StoreFull(StoreUnavailable):
    """The store's disk is full: nothing was written, and nothing can be until there is room."""

    code = "store_full"


class Fenced(StoreError):
    """The lease row names another holder or epoch: nothing was written."""

    status = 409
    code = "fenced"
