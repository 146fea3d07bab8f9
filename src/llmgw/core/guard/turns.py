"""What guardrails see of a conversation: turns of text, and parts that nobody can read."""

from enum import StrEnum
from typing import NamedTuple

from llmgw.schema.guard.coverage import Why


class Speaker(StrEnum):
    """Whose words a turn is made of."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Turn(NamedTuple):
    """One piece of text and the place in the request where it stands."""

    speaker: Speaker
    text: str
    where: str


class Unreadable(NamedTuple):
    """A part that holds no text."""

    where: str
    why: Why


class Conversation(NamedTuple):
    """All that is sent to a model, in order."""

    turns: tuple[Turn, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    tools: int = 0
    messages: int = 0

    @property
    def characters(self) -> int:
        """Characters of all turns."""
        return sum(len(turn.text) for turn in self.turns)
