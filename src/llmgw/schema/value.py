"""The base of every stored or transmitted value."""

import msgspec


class Value(msgspec.Struct, frozen=True):
    """A frozen value. Unknown is `None`, never 0; fields are named as in the API (snake_case).

    Subclasses say `frozen=True, kw_only=True` themselves: msgspec does not inherit the second, mypy not the first.
    """
