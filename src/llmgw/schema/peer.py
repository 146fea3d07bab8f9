"""What gateway masters tell each other: a hello, then frames of fixed-size records (`gateway.peer_records`)."""

from llmgw.schema.value import Value


class PeerHello(Value, frozen=True, kw_only=True, tag="peer_hello"):
    """First message of a gateway's stream to another one. Only the one that dialled speaks."""

    gateway: str
    version: str
    run: str
    """This start of it: sequences of another start do not compare."""
