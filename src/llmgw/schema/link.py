"""Messages of the agent link and of the gateway's control link. Tagged, JSON, one per frame."""

from llmgw.schema.demand import DemandReport
from llmgw.schema.desired import DesiredState
from llmgw.schema.node import NodeFacts
from llmgw.schema.report import Load, ShardReport
from llmgw.schema.value import Value
from llmgw.schema.view import RoutesDelta, View

# Agent to server ----------------------------------------------------------------------------------


class Hello(Value, frozen=True, kw_only=True, tag="hello"):
    """First message of an agent."""

    node: str
    token: str
    facts: NodeFacts
    shards: tuple[ShardReport, ...]
    epoch: int
    """Highest epoch obeyed, 0 for none."""
    holder: str | None
    generation: int
    """Generation obeyed last."""


class Heartbeat(Value, frozen=True, kw_only=True, tag="heartbeat"):
    """What changed. `shards` is always the whole set; `facts` is sent when it differs from the last one sent."""

    shards: tuple[ShardReport, ...]
    generation: int
    facts: NodeFacts | None = None
    load: Load | None = None


class Ping(Value, frozen=True, kw_only=True, tag="ping"):
    """Sign of life, either way, every 5 s."""


class OrderRefused(Value, frozen=True, kw_only=True, tag="order_refused"):
    """An agent will not obey an order, and why (stale epoch, other holder, older generation)."""

    epoch: int
    generation: int
    reason: str
    highest_epoch: int
    highest_holder: str | None


class LogReply(Value, frozen=True, kw_only=True, tag="log_reply"):
    """The answer to a `LogRequest`."""

    id: int
    text: str | None = None
    attempt: int | None = None
    error: str | None = None


# Server to agent ----------------------------------------------------------------------------------


class Welcome(Value, frozen=True, kw_only=True, tag="welcome"):
    """The server takes the agent on."""

    epoch: int
    holder: str
    servers: tuple[str, ...] = ()
    """All control planes' agent addresses, to be remembered beside the configured ones."""


class Refused(Value, frozen=True, kw_only=True, tag="refused"):
    """The server does not take the agent (or gateway) on; it should try the next address (or `leader` first)."""

    reason: str
    leader: str | None = None


class Order(Value, frozen=True, kw_only=True, tag="order"):
    """The desired set."""

    state: DesiredState


class LogRequest(Value, frozen=True, kw_only=True, tag="log_request"):
    """Asks for the end of a shard's log: of `attempt`, or of the newest start."""

    id: int
    shard: str
    attempt: int | None = None
    tail_bytes: int = 64 * 1024


AgentMessage = Hello | Heartbeat | Ping | OrderRefused | LogReply
ServerMessage = Welcome | Refused | Order | Ping | LogRequest

# Gateway master to control plane ------------------------------------------------------------------


class GatewayHello(Value, frozen=True, kw_only=True, tag="gateway_hello"):
    """First message of a gateway master; the server answers with a snapshot."""

    gateway: str
    version: str
    pid: int
    peer: str | None = None
    """`host:port` where other gateway masters reach this one; `None`: they cannot."""


class GatewayReport(Value, frozen=True, kw_only=True, tag="gateway_report"):
    """Demand and metrics, each second."""

    report: DemandReport


class RenewCertificate(Value, frozen=True, kw_only=True, tag="renew_certificate"):
    """Asks for a new certificate for this gateway."""

    request: str
    """Certificate signing request, PEM."""


# Control plane to gateway master ------------------------------------------------------------------


class ViewSnapshot(Value, frozen=True, kw_only=True, tag="view_snapshot"):
    """The whole view."""

    view: View


class ViewDelta(Value, frozen=True, kw_only=True, tag="view_delta"):
    """Changes: `routes` by model, the other sections whole where they changed. A gap in `base` means: reconnect."""

    routes: RoutesDelta | None = None
    view: View | None = None


class Renewed(Value, frozen=True, kw_only=True, tag="renewed"):
    """The answer to `RenewCertificate`."""

    certificate: str | None = None
    """PEM; `None`: see `reason`."""
    reason: str | None = None


GatewayMessage = GatewayHello | GatewayReport | RenewCertificate | Ping
ControlMessage = ViewSnapshot | ViewDelta | Ping | Refused | Renewed
