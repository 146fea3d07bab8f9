"""Who may be at the other end of a TLS connection: why a peer is turned away, from its verified certificate."""

import ssl
from collections.abc import Callable

from llmgw.link.identity import peer_identity
from llmgw.schema.identity import Identity, Part

_NAMELESS = "its certificate is not of a part of this cluster"


def admitting(*parts: Part) -> Callable[[ssl.SSLObject], str | None]:
    """Let these parts in, whatever their names."""

    def refuse(connection: ssl.SSLObject) -> str | None:
        found = peer_identity(connection)
        if found is None:
            return _NAMELESS
        return None if found.part in parts else f"it is {found}; only a {' or '.join(parts)} is let in here"

    return refuse


def expecting(part: Part) -> Callable[[ssl.SSLObject, str], str | None]:
    """Take only the part of the name that was dialled."""

    def refuse(connection: ssl.SSLObject, name: str) -> str | None:
        found, wanted = peer_identity(connection), Identity(part=part, name=name)
        if found is None:
            return _NAMELESS
        return None if found == wanted else f"it is {found}, not {wanted}"

    return refuse
