"""A control plane as agents see it: takes them on, orders what a test asks for, remembers what they said."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from llmgw.link.server import AgentListener, AgentStream, TokenGate
from llmgw.schema.desired import DesiredShard, DesiredState, Mode
from llmgw.schema.link import (
    AgentMessage,
    Heartbeat,
    Hello,
    LogReply,
    LogRequest,
    Order,
    OrderRefused,
    Refused,
    ServerMessage,
    Welcome,
)
from llmgw.schema.node import NodeFacts
from llmgw.schema.report import ShardReport


class FakeControl:
    """Serves one agent on loopback, as `async with FakeControl() as control`."""

    def __init__(self, *, token: str = "agent-token", epoch: int = 1, holder: str = "control-1") -> None:  # noqa: S107 - a test's
        self.epoch = epoch
        self.holder = holder
        self.refuse: Refused | None = None
        """Answer to hellos instead of a welcome."""
        self.servers: tuple[str, ...] = ()
        self.hellos: list[Hello] = []
        self.messages: list[AgentMessage] = []
        """What was said on the open stream, oldest first."""
        self.phases: dict[str, list[str]] = {}
        """Each shard's phases in the order they were reported, repetitions left out."""
        self._listener = AgentListener(self, TokenGate(token))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._stream: AgentStream | None = None
        self._generation = 0
        self._questions = 0
        self._news = asyncio.Event()

    @property
    def address(self) -> str:
        """`host:port` for an agent's `servers`."""
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def connected(self) -> bool:
        """True while an agent's stream is open."""
        return self._stream is not None

    @property
    def reports(self) -> dict[str, ShardReport]:
        """The shards as the agent reported them last."""
        for message in reversed(self.messages):
            if isinstance(message, Heartbeat):
                return {report.id: report for report in message.shards}
        return {report.id: report for report in self.hellos[-1].shards} if self.hellos else {}

    @property
    def facts(self) -> NodeFacts:
        """The node's facts as the agent told them last."""
        for message in reversed(self.messages):
            if isinstance(message, Heartbeat) and message.facts is not None:
                return message.facts
        return self.hellos[-1].facts

    def order(
        self,
        shards: Sequence[DesiredShard] = (),
        *,
        mode: Mode = Mode.ENFORCE,
        epoch: int | None = None,
        holder: str | None = None,
        generation: int | None = None,
        watch_paths: Sequence[str] = (),
    ) -> None:
        """Send a desired set, of the next generation unless told otherwise."""
        self._generation = generation if generation is not None else self._generation + 1
        state = DesiredState(
            epoch=epoch if epoch is not None else self.epoch,
            holder=holder if holder is not None else self.holder,
            generation=self._generation,
            mode=mode,
            shards=tuple(shards),
            watch_paths=tuple(watch_paths),
        )
        self.send(Order(state=state))

    def send(self, message: ServerMessage) -> None:
        """Send any message on the open stream."""
        assert self._stream is not None, "no agent is connected"  # noqa: S101 - tells a test what is wrong
        self._stream.send(message)

    async def read_log(self, shard: str, attempt: int | None = None) -> LogReply:
        """Ask for the end of a log."""
        self._questions += 1
        question = self._questions
        self.send(LogRequest(id=question, shard=shard, attempt=attempt))
        await self.until(lambda: any(isinstance(one, LogReply) and one.id == question for one in self.messages))
        return next(one for one in self.messages if isinstance(one, LogReply) and one.id == question)

    async def refusal(self) -> OrderRefused:
        """Wait for the next refused order."""
        seen = sum(isinstance(one, OrderRefused) for one in self.messages)
        await self.until(lambda: sum(isinstance(one, OrderRefused) for one in self.messages) > seen)
        return [one for one in self.messages if isinstance(one, OrderRefused)][seen]

    async def until(self, condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
        """Wait until what agents said fulfils a condition; raises `TimeoutError` with what they said last."""
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise TimeoutError(f"not within {within_s} s; last reports: {self.reports}") from error

    def hang_up(self) -> None:
        """Close the open stream."""
        if self._stream is not None:
            self._stream.close("the test hangs up")

    # What the listener asks of its handler -----------------------------------------------------------

    async def settle(self, hello: Hello) -> None:
        """Let nobody wait."""

    def admit(self, hello: Hello) -> Welcome | Refused:
        """Take the agent on, unless told to refuse."""
        if self.refuse is not None:
            return self.refuse
        self.hellos.append(hello)
        self._generation = max(self._generation, hello.generation)
        return Welcome(epoch=self.epoch, holder=self.holder, servers=self.servers)

    def opened(self, stream: AgentStream, hello: Hello) -> None:
        """Take note of the stream; older messages are of no more interest."""
        self._stream = stream
        self.messages.clear()
        self._note(hello.shards)
        self._news.set()

    def heard(self, stream: AgentStream) -> None:
        """Nothing to do."""

    def said(self, stream: AgentStream, message: AgentMessage) -> None:
        """Take note of a message."""
        if self._stream is not stream:
            return
        self.messages.append(message)
        if isinstance(message, Heartbeat):
            self._note(message.shards)
        self._news.set()

    def closed(self, stream: AgentStream) -> None:
        """Take note of the stream's end."""
        if self._stream is stream:
            self._stream = None
            self._news.set()

    def _note(self, reports: Sequence[ShardReport]) -> None:
        for report in reports:
            phases = self.phases.setdefault(report.id, [])
            if not phases or phases[-1] != report.phase:
                phases.append(report.phase)

    async def __aenter__(self) -> Self:
        await self._listener.start(self._socket)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()
        await self._listener.stop()
