"""What every engine's adapter states: command line, readiness, failure words, what a shard needs."""

from typing import Protocol

from llmgw.schema.desired import DesiredShard
from llmgw.schema.engine import EngineInstall, EngineKind
from llmgw.schema.model import Profile, Role
from llmgw.schema.node import Host
from llmgw.schema.plan import Claim
from llmgw.schema.report import Death
from llmgw.schema.value import Value
from llmgw.schema.weights import Weights


class Launch(Value, frozen=True, kw_only=True):
    """How to start a shard's engine: as a child in a process group of its own, output to its log."""

    argv: tuple[str, ...]
    """Never a shell's; the shard's id is in it, so that orphans are found. No secrets: argv is public."""
    env: dict[str, str]
    """Variables to set over the agent's own."""
    stdin: bytes
    """To be written whole, then closed. Holds the engine's key."""

    def __repr__(self) -> str:
        return f"Launch(argv={self.argv!r}, env={self.env!r}, stdin=<{len(self.stdin)} bytes>)"


class Started(Value, frozen=True, kw_only=True):
    """What an engine said of itself once it listened."""

    endpoint: str
    """`http://HOST:PORT`."""
    pid: int
    version: str | None = None


class Adapter(Protocol):
    """One engine. Adapters hold no state: all they know comes in as arguments."""

    @property
    def kind(self) -> EngineKind:
        """The engine this adapter is for."""

    def version(self) -> str | None:
        """Version installed where this process runs; `None` when it is not installed."""

    def probe(self, host: Host) -> EngineInstall | None:
        """Say whether this machine can run the engine; `None` when it is not installed."""

    def paths(self, role: Role) -> frozenset[str]:
        """Name the inference paths a gateway may ask; engines' own keys leave other paths open."""

    def check(self, profile: Profile, role: Role) -> None:
        """Raise `InvalidInput`, naming the field and what is allowed, for a profile the engine cannot run."""

    def resolve(self, profile: Profile, role: Role, weights: Weights | None, cores_usable: float | None) -> Profile:
        """Fill in what the profile leaves open. Resolving twice changes nothing."""

    def claim(self, profile: Profile, weights: Weights | None) -> Claim:
        """Say what one shard of the resolved profile needs on its node."""

    def launch(self, shard: DesiredShard, *, log_verbosity: int) -> Launch:
        """Say how to start the shard. Raises `InvalidInput` as `check` does."""

    def starting(self, log_text: str) -> str | None:
        """Say what the starting engine is doing, in words."""

    def ready_line(self, log_text: str) -> Started | None:
        """Read where the engine listens; `None` until it said so."""

    def failure(self, status: int | None, log_text: str) -> Death:
        """Explain an end nobody asked for. `status` as Popen gives it, `None` when it cannot be seen."""
