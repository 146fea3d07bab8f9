"""Certificates that others' are checked against, from a file that a key of the configuration names."""

import ssl

from llmgw.schema.errors import InvalidInput


def trusted(path: str | None, *, field: str) -> ssl.SSLContext | None:
    """Read them; `None` where no file is named: the system's own. Raises `InvalidInput` naming `field`."""
    if path is None:
        return None
    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:  # first, for it is an OSError too
        raise _unreadable(field, path, "it holds no certificate in PEM") from error
    except OSError as error:
        raise _unreadable(field, path, error.strerror or type(error).__name__) from error


def _unreadable(field: str, path: str, why: str) -> InvalidInput:
    return InvalidInput(f"{field}: {path} cannot be used: {why}", hint="name a readable file", field=field)
