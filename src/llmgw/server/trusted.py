"""Files that configuration names: certificates that others' are checked against, and why one cannot be read."""

import ssl

from llmgw.schema.errors import InvalidInput


def trusted(path: str | None, *, field: str) -> ssl.SSLContext | None:
    """Read certificates; `None` where no file is named: the system's own. Raises `InvalidInput` naming `field`."""
    if path is None:
        return None
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise unreadable(field, path, error) from error


def unreadable(field: str, path: str, error: Exception) -> InvalidInput:
    """Say why a file that `field` names cannot be used."""
    match error:
        case ssl.SSLError():  # first, for it is an OSError too
            why = "it holds no certificate in PEM"
        case OSError():
            why = error.strerror or type(error).__name__
        case _:
            why = "it is not text"
    return InvalidInput(f"{field}: cannot read {path}: {why}", hint="name a readable file", field=field)
