"""Rules: one check each, with what happens when it finds something and when it cannot look."""

from enum import StrEnum
from typing import Any, Literal

from llmgw.schema.guard.category import Category
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.value import Value

ALL: Literal["all"] = "all"
"""Of `secrets`, `personal_data` and `attach`: every kind there is, those of later versions too."""


class Stage(StrEnum):
    """What a rule looks at."""

    INPUT = "input"
    OUTPUT = "output"
    BOTH = "both"


class Action(StrEnum):
    """What a finding does, the strongest first."""

    BLOCK = "block"
    REDACT = "redact"
    """Found places are replaced; only rules that know the place can."""
    FLAG = "flag"
    """The answer is marked: header, log, metric."""
    SHADOW = "shadow"
    """Only counted: what would have happened."""


class FailureKind(StrEnum):
    """Why a rule has no verdict."""

    UNREACHABLE = "unreachable"
    """No replica is there, or the connection failed."""
    TIMEOUT = "timeout"
    OVERLOADED = "overloaded"
    """The judge lives and has no room: too many requests wait."""
    UNCLEAR = "unclear"
    """It answered, and the answer is no verdict."""
    MISCONFIGURED = "misconfigured"
    """It is not a judge, its canaries fail, it refuses the request, or the rule cannot be carried out."""


class OnFailure(StrEnum):
    """What happens to a request whose rule has no verdict."""

    OPEN = "open"
    """It passes, counted and recorded as a bypass."""
    CLOSED = "closed"
    """It is refused."""


class FailurePolicy(Value, frozen=True, kw_only=True):
    """A choice for each kind of failure; left out: closed for rules that block or redact, open for the others."""

    unreachable: OnFailure | None = None
    timeout: OnFailure | None = None
    overloaded: OnFailure | None = None
    unclear: OnFailure | None = None
    misconfigured: OnFailure | None = None


class Controversial(StrEnum):
    """What the middle level of judges with three levels counts as."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class SecretKind(StrEnum):
    """Secrets with a shape, and long random words in places where secrets stand."""

    PRIVATE_KEY = "private_key"
    AWS_KEY = "aws_key"
    GITHUB_TOKEN = "github_token"  # noqa: S105 - a kind, not a password
    GITLAB_TOKEN = "gitlab_token"  # noqa: S105 - a kind, not a password
    GOOGLE_KEY = "google_key"
    SLACK_TOKEN = "slack_token"  # noqa: S105 - a kind, not a password
    STRIPE_KEY = "stripe_key"
    OPENAI_KEY = "openai_key"
    ANTHROPIC_KEY = "anthropic_key"
    HUGGINGFACE_TOKEN = "huggingface_token"  # noqa: S105 - a kind, not a password
    NPM_TOKEN = "npm_token"  # noqa: S105 - a kind, not a password
    PYPI_TOKEN = "pypi_token"  # noqa: S105 - a kind, not a password
    LLMGW_KEY = "llmgw_key"
    JWT = "jwt"
    URL_PASSWORD = "url_password"  # noqa: S105 - a kind, not a password
    RANDOM_WORD = "random_word"
    """A word of high entropy after a name such as `password`, `secret`, `token` or `api_key`."""


class PersonalDataKind(StrEnum):
    """Personal data that can be told from other text by its form and its check digits."""

    EMAIL = "email"
    PHONE = "phone"
    IBAN = "iban"
    CARD = "card"
    IP_ADDRESS = "ip_address"
    NATIONAL_ID = "national_id"
    """US social security, German tax, French social security, Spanish, Italian and Polish personal numbers."""


class Limits(Value, frozen=True, kw_only=True):
    """Bounds of size and shape; a text beyond one is a finding."""

    max_characters: int | None = None
    """Of all text of the request, or of the answer."""
    max_messages: int | None = None
    max_tools: int | None = None
    json_schema: dict[str, Any] | None = None
    """The answer must be JSON of this shape: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`,
    `const`, `minimum`, `maximum`, `minLength`, `maxLength`, `minItems`, `maxItems`."""


class Rule(Value, frozen=True, kw_only=True):
    """One check: exactly one of `pattern`, `secrets`, `personal_data`, `limits`, `allow_models` and `judge`."""

    name: str
    pattern: str | tuple[str, ...] | None = None
    """One or several regular expressions in RE2's syntax: linear in the text, so no look-around, no back-references."""
    secrets: Literal["all"] | tuple[SecretKind, ...] | None = None
    personal_data: Literal["all"] | tuple[PersonalDataKind, ...] | None = None
    limits: Limits | None = None
    allow_models: tuple[str, ...] | None = None
    """Models that may be asked; any other is a finding."""
    judge: str | None = None
    """Name of a model in role `guard`."""
    stage: Stage = Stage.BOTH
    action: Action
    timeout_s: float = 10.0
    """Seconds for all of a judge's answers to one window, retries included."""
    on_failure: FailurePolicy = FailurePolicy()
    threshold: float = 0.5
    """A judge's probability of unsafe from which on it is a finding; other than 0.5 needs a judge that gives one."""
    exclude: tuple[Category, ...] = ()
    """Categories that are no finding."""
    controversial: Controversial = Controversial.UNSAFE
    guideline: str | None = None
    """What is not allowed, in words, for a judge that is an ordinary chat model."""
    family: JudgeFamily | None = None
    """Says which family the judge is of, where its files do not tell."""
    regions: tuple[str, ...] = ()
    """Countries (two letters) whose telephone numbers are found without their international prefix too."""
    replacement: str | None = None
    """What stands for a redacted place; left out: the kind in brackets."""


KINDS = ("pattern", "secrets", "personal_data", "limits", "allow_models", "judge")
"""Fields of a rule of which exactly one is given."""


def kind(rule: Rule) -> str:
    """Name the kind of a rule that was checked."""
    return next(name for name in KINDS if getattr(rule, name) is not None)


def choice(rule: Rule, failure: FailureKind) -> OnFailure:
    """Say what happens to a request when `rule` has no verdict for the reason `failure`."""
    chosen: OnFailure | None = getattr(rule.on_failure, failure.value)
    if chosen is not None:
        return chosen
    return OnFailure.CLOSED if rule.action in {Action.BLOCK, Action.REDACT} else OnFailure.OPEN
