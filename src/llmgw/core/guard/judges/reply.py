"""What came of asking a judge once: a reading, or why there is none."""

from typing import NamedTuple

from llmgw.core.guard.judges.adapter import Reading, Unclear
from llmgw.core.guard.judges.verdict_of import verdict_of
from llmgw.schema.guard.rule import FailureKind, Rule
from llmgw.schema.guard.verdict import Verdict, failed


class NoAnswer(NamedTuple):
    """The judge did not answer, or was not asked."""

    failure: FailureKind
    detail: str


class JudgeReply(NamedTuple):
    """One question to a judge."""

    outcome: Reading | Unclear | NoAnswer
    seconds: float
    version: str | None = None
    """Family and replica that answered."""
    empty: bool = False
    """It answered, with no text at all."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """What it cost, as its engine counted."""

    def verdict(self, rule: Rule) -> Verdict:
        """Say what it means to a rule."""
        if isinstance(self.outcome, NoAnswer):
            return failed(self.outcome.failure, self.outcome.detail)
        return verdict_of(rule, self.outcome)
