"""Changes: who wants to know that something changed. Says that, never what: listeners look for themselves."""

from collections.abc import Callable

Listener = Callable[[], None]


class Changes:
    """A list of listeners. Each must return at once, such as by setting an event."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` at each change from now on; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def notify(self) -> None:
        """Tell all listeners."""
        for listener in tuple(self._listeners):
            listener()
