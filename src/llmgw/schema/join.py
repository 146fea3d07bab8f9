"""Messages of the join path: a machine asks for its certificate. Tagged, JSON, one per WebSocket frame.

The control plane speaks first (`Introduction`): who joins checks it against the pin in its token before it says more.
"""

from llmgw.schema.identity import Part
from llmgw.schema.link import Refused
from llmgw.schema.value import Value


class Introduction(Value, frozen=True, kw_only=True, tag="introduction"):
    """The first message of a control plane."""

    authority: str
    """Certificate of the cluster's authority, PEM."""


class Join(Value, frozen=True, kw_only=True, tag="join"):
    """Asks for a first certificate."""

    part: Part
    name: str
    token: str
    """The secret alone, without the pin."""
    request: str
    """Certificate signing request, PEM. Only its key is taken; the name comes from the token."""


class Renew(Value, frozen=True, kw_only=True, tag="renew"):
    """Asks for a new certificate in the name of the one this stream was opened with."""

    request: str


class Joined(Value, frozen=True, kw_only=True, tag="joined"):
    """The certificate."""

    certificate: str
    """PEM, valid for a week."""
    authority_secret: str | None = None
    """Opens the authority's key in the store. For control planes only."""


class Declined(Value, frozen=True, kw_only=True, tag="declined"):
    """The cluster's last word: another control plane would say the same, where `Refused` means: ask another."""

    reason: str


JoinRequest = Join | Renew
JoinAnswer = Introduction | Joined | Declined | Refused
