"""What one API can say and another cannot."""


class Untranslatable(Exception):
    """A request that cannot be put into a chat, or an answer of one that a surface has no words for.

    `field` is the place in the request, as the client wrote it; `None` for an answer.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
