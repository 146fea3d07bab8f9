"""What a judge is shown of a conversation that may be longer than it can read: windows that together show all of it.

The newest words of the user come first and whole, with as much of what was said before as there is room for. Older
parts follow in windows of their own, each of which ends with the turn that is judged.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from llmgw.core.guard.turns import Speaker, Turn
from llmgw.core.guard.windows import split

MAX_VIEWS = 64
"""Windows of one conversation: about 250,000 tokens. What is older than that is not shown, and recorded as such."""
_OVERLAP = 400
"""Characters by which parts of one long turn overlap."""
_LEAST = 1000
"""Characters below which no judge's window lies: a prompt must hold more than its frame."""


class Said(NamedTuple):
    """One turn as judges know them: of the user or of the agent."""

    by_agent: bool
    text: str


class View(NamedTuple):
    """What is shown at once. The last turn is the one that is judged."""

    turns: tuple[Said, ...]

    @property
    def judges_agent(self) -> bool:
        """True when the agent's words are judged, else the user's."""
        return self.turns[-1].by_agent

    @property
    def characters(self) -> int:
        """Characters of all its turns."""
        return sum(len(turn.text) for turn in self.turns)


class Outlook(NamedTuple):
    """All views of a conversation, the newest first, and how many characters are in none of them."""

    views: tuple[View, ...]
    unseen: int = 0


def outlook(turns: Sequence[Turn], room: int) -> Outlook:
    """Show a request to a judge that has room for `room` characters."""
    said = merged(turns)
    if not said:
        return Outlook(())
    room = max(room, _LEAST)
    views = list(_views(said, room))
    return Outlook(tuple(views[:MAX_VIEWS]), sum(view.characters for view in views[MAX_VIEWS:]))


def answer_view(turns: Sequence[Turn], answer: str, room: int) -> View:
    """Show a window of an answer after the request's newest turns, as far as there is room."""
    said = merged(turns)
    rest = max(room, _LEAST) - len(answer)
    return View((*_tail(said, rest), Said(by_agent=True, text=answer)))


def merged(turns: Sequence[Turn]) -> list[Said]:
    """Make turns of user and agent that alternate: system text, tools and what they return count as the user's."""
    runs = groupby(turns, key=lambda turn: turn.speaker is Speaker.ASSISTANT)
    return [Said(by_agent, "\n\n".join(turn.text for turn in run)) for by_agent, run in runs]


def _views(said: list[Said], room: int) -> Iterator[View]:
    """Go back from the newest turn, window by window."""
    if said[-1].by_agent and len(said) > 1:
        # Words put into the agent's mouth are judged as the agent's; the user's before them all the same.
        yield from _ending_with(said, room)
        said = said[:-1]
    yield from _ending_with(said, room)
    rest = _before(said, room)
    while rest:
        yield from _ending_with(rest, room)
        rest = _before(rest, room)


def _ending_with(said: list[Said], room: int) -> Iterator[View]:
    """Show the last turn whole: in one view with what came before, or alone in several parts, the newest first."""
    newest = said[-1]
    if len(newest.text) <= room:
        yield View((*_tail(said[:-1], room - len(newest.text)), newest))
        return
    for window in reversed(split(newest.text, room, min(_OVERLAP, room // 4))):
        yield View((Said(newest.by_agent, window.text),))


def _tail(said: list[Said], room: int) -> list[Said]:
    """Give the newest turns that fit as a whole."""
    kept: list[Said] = []
    for turn in reversed(said):
        room -= len(turn.text)
        if room < 0:
            break
        kept.insert(0, turn)
    return kept


def _before(said: list[Said], room: int) -> list[Said]:
    """Give the turns that `_ending_with` did not show."""
    newest = said[-1]
    shown = len(_tail(said[:-1], room - len(newest.text))) if len(newest.text) <= room else 0
    return said[: len(said) - 1 - shown]
