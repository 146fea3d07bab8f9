"""What the control plane says to the agent: orders, checked against those obeyed before, and questions."""

from collections.abc import Callable, Sequence

from llmgw.agent import logs, off_loop
from llmgw.agent.heartbeat import Heart
from llmgw.agent.local_state import LocalState
from llmgw.agent.obeyed import Obeyed, after, is_shard_id, refusal
from llmgw.schema.desired import DesiredState
from llmgw.schema.link import Hello, LogReply, LogRequest, Order, OrderRefused, ServerMessage, Welcome
from llmgw.telemetry import log

MAX_TAIL = 4 * 1024 * 1024

_log = log.get(__name__)


class Orders:
    """The agent's side of the link: takes orders on, refuses stale ones, answers questions."""

    def __init__(
        self,
        *,
        state: LocalState,
        servers: Sequence[str],
        heart: Heart,
        obey: Callable[[DesiredState], None],
    ) -> None:
        self._state = state
        self._configured = tuple(servers)
        self._heart = heart
        self._obey = obey
        self._learnt = state.servers()
        self._obeyed = state.obeyed()

    @property
    def obeyed(self) -> Obeyed:
        """What was obeyed last."""
        return self._obeyed

    def addresses(self) -> Sequence[str]:
        """Learnt control planes first, the configured ones always with them, as the last resort."""
        return tuple(dict.fromkeys((*self._learnt, *self._configured)))

    def hello(self) -> Hello:
        """Compose the first message of a stream."""
        return self._heart.hello()

    def welcomed(self, welcome: Welcome) -> None:
        """Remember the control planes there are."""
        if welcome.servers and welcome.servers != self._learnt:
            self._learnt = welcome.servers
            self._state.save_servers(welcome.servers)
        # What changed since the hello was composed found no stream.
        self._heart.changed()

    def received(self, message: ServerMessage) -> None:
        """Carry out one message."""
        match message:
            case Order(state=order):
                self._take(order)
            case LogRequest():
                self._read_log(message)

    def _take(self, order: DesiredState) -> None:
        reason = refusal(self._obeyed, order)
        if reason is not None:
            _log.warning("order.refused", epoch=order.epoch, generation=order.generation, reason=reason)
            self._heart.reply(
                OrderRefused(
                    epoch=order.epoch,
                    generation=order.generation,
                    reason=reason,
                    highest_epoch=self._obeyed.epoch,
                    highest_holder=self._obeyed.holder,
                )
            )
            return
        obeyed = after(self._obeyed, order)
        if obeyed != self._obeyed:
            # On disk first: an agent that restarts right after obeying must not obey an older order.
            self._state.save_obeyed(obeyed)
            self._obeyed = obeyed
        self._obey(order)

    def _read_log(self, request: LogRequest) -> None:
        reading = off_loop.call(lambda: read_log(self._state, request), name="log")
        reading.add_done_callback(lambda done: self._heart.reply(done.result()))


def read_log(state: LocalState, request: LogRequest) -> LogReply:
    """Read the end of a shard's log, secrets taken out. Blocks on the file system, raises nothing."""
    shard = request.shard
    if not is_shard_id(shard):
        return LogReply(id=request.id, error=f"{shard!r} is no shard id")
    folder = state.log_path(shard, 0).parent
    attempt = request.attempt if request.attempt is not None else logs.newest(folder)
    if attempt is None:
        return LogReply(id=request.id, error=f"this node has no log of shard {shard}")
    path = state.log_path(shard, attempt)
    if not path.exists():
        return LogReply(id=request.id, attempt=attempt, error=f"this node has no log of attempt {attempt} of {shard}")
    text = logs.read_tail(path, min(max(request.tail_bytes, 0), MAX_TAIL))
    return LogReply(id=request.id, attempt=attempt, text=log.redact(text))
