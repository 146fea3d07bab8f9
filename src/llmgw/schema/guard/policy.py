"""Policies: rules, and whose requests they apply to."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from llmgw.schema.guard.rule import Rule
from llmgw.schema.value import Value

MAX_POLICIES = 200
MAX_RULES = 50
"""Rules of one policy."""


class Attachment(Value, frozen=True, kw_only=True):
    """Requests of any of these projects or keys, or to any of these models."""

    projects: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Public ids of keys (`lk_…`)."""
    models: tuple[str, ...] = ()


class Unscannable(StrEnum):
    """What happens to requests with parts that no rule of the policy can read: images, audio, token numbers."""

    REJECT = "reject"
    MARK = "mark"
    """They pass; the coverage record names the part."""


class Policy(Value, frozen=True, kw_only=True):
    """What an operator writes. Policies add up: a narrower one never takes a rule of a wider one away."""

    name: str
    attach: Literal["all"] | Attachment
    exempt: Attachment = Attachment()
    """Left out although attached: the operator's word, not the client's."""
    priority: int = 0
    """Larger is told first when several rules block."""
    unscannable: Unscannable | None = None
    """Left out: reject where a rule of the policy blocks, else mark."""
    rules: tuple[Rule, ...]


class StoredPolicy(Value, frozen=True, kw_only=True):
    """A policy as the store and the gateways know it. `revision` grows with each change."""

    policy: Policy
    revision: int = 1
    changed_at: datetime


class PolicyFile(Value, frozen=True, kw_only=True):
    """What `ctl guard policy apply -f` reads and `export` writes: all policies there are to be."""

    policies: tuple[Policy, ...] = ()
