"""The policies of the last view, ready to be applied, and which judges must not be asked."""

from collections.abc import Collection, Mapping

from llmgw.core.guard.rulebook import Caller, RuleBook, RuleSet
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.view import PoliciesSection


class LivePolicies:
    """What a worker knows of policies and judges."""

    def __init__(self) -> None:
        self._book = RuleBook()
        self._any = False
        self._families: dict[str, JudgeFamily | None] = {}
        self._wrong: Mapping[str, str] = {}
        self._sick: frozenset[str] = frozenset()

    @property
    def version(self) -> int | None:
        """Version of the policies; `None` before any came."""
        return self._book.version

    @property
    def judges(self) -> tuple[str, ...]:
        """Name the judges that policies ask, in order."""
        return tuple(self._book.judges())

    def take(self, section: PoliciesSection) -> None:
        """Take over a section, whole."""
        self._book = RuleBook(section.policies, version=section.version)
        self._any = bool(section.policies)
        self._families = {judge.model: judge.family for judge in section.judges}

    def take_quarantine(self, wrong: Mapping[str, str], sick: Collection[str]) -> None:
        """Take over which judges give wrong verdicts, with what they do, and which single replicas do."""
        self._wrong = wrong
        self._sick = frozenset(sick)

    def rules(self, project: str | None, key: str | None, model: str, others: tuple[str, ...]) -> RuleSet | None:
        """Give the rules that apply to a request, whichever of the models answers; `None`: nothing does."""
        if not self._any:
            return None
        return self._book.rules(Caller(project, key, model, others)) or None

    def family(self, judge: str) -> JudgeFamily | None:
        """Say which judge a model is; `None`: none that anybody knows."""
        return self._families.get(judge)

    def quarantined(self, judge: str) -> str | None:
        """Say why a judge must not be asked; `None`: it may be."""
        return self._wrong.get(judge)

    def sick(self) -> frozenset[str]:
        """Name the replicas that must not be asked while others of their judge are right."""
        return self._sick
