"""How a control plane's connections are secured: not at all on trusted networks, else by mutual TLS of the cluster."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from llmgw.config.server import ServerConfig
from llmgw.config.tls import Tls, is_wildcard, split_address
from llmgw.link.join_server import JoinPath
from llmgw.link.renewed import follow_renewals
from llmgw.link.served import ServedCertificate
from llmgw.link.server import AgentHandler, AgentListener, TokenGate
from llmgw.ports import Clock, Store
from llmgw.schema.identity import Identity, Part
from llmgw.server.bootstrap import agent_token
from llmgw.server.enrolments import LOOPBACK, Directory, Enrolments
from llmgw.server.fleet import Fleet
from llmgw.server.gateway_gate import GatewayGate
from llmgw.server.hub import Renewing
from llmgw.server.trust import ServerTrust


class Security:
    """What listens and dials with what. Open it before anything listens.

    Raises `InvalidInput` from the start for files that cannot be read.
    """

    def __init__(self, config: ServerConfig, *, fleet: Fleet, clock: Clock, directory: Directory) -> None:
        self._config = config
        self._fleet = fleet
        self._trust: ServerTrust | None = None
        self._api: ServedCertificate | None = None
        if config.tls is Tls.ON:
            self._trust = ServerTrust(
                Path(config.data_dir), name=config.name, hosts=host_names(config), fleet=fleet, clock=clock
            )
            self._enrolments = Enrolments(fleet=fleet, clock=clock, trust=self._trust, directory=directory)
            self._api = _own_certificate(config)
        else:
            self._token = agent_token(token_file(config))

    async def open(self, store: Store) -> None:
        """Read or make the cluster's authority. Raises `InvalidInput`, `StoreUnavailable`."""
        if self._trust is not None:
            await self._trust.open(store)

    async def bootstrap(self) -> None:
        """Make what a new cluster lacks; to be called while leading."""
        if self._trust is not None:
            await self._trust.store()

    async def run(self) -> None:
        """Renew certificates, and take into use those that the operator renewed, until cancelled."""
        if self._trust is None:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._trust.keep())
            tasks.create_task(follow_renewals(() if self._api is None else (self._api,)))

    def listener(self, agents: AgentHandler) -> AgentListener:
        """Give the agents' listener, which lets go at once of machines that were removed."""
        if self._trust is None:
            return AgentListener(agents, TokenGate(self._token))
        trust = self._trust
        listener = AgentListener(
            agents,
            self._enrolments,
            tls=lambda: trust.own.listening(demand=False),
            joining=JoinPath(self._enrolments),
        )
        self._fleet.changes.subscribe(listener.look)
        return listener

    def api(self) -> ssl.SSLContext | None:
        """Give what API and console listen with. After `open`."""
        if self._trust is None:
            return None
        return self._trust.own.serving_people() if self._api is None else self._api.context

    def dialling(self) -> ssl.SSLContext | None:
        """Give what other control planes are dialled with; their names are checked. After `open`."""
        if self._trust is None:
            return None
        context = ssl.create_default_context()
        context.load_verify_locations(self._trust.own.authority_file)
        return context

    def gateways(self) -> GatewayGate | None:
        """Give who may connect as a gateway of another machine; `None` without mutual TLS. After `open`."""
        if self._trust is None:
            return None
        return GatewayGate(self._trust.own.listening(), self._enrolments.judge)

    @property
    def judge(self) -> Callable[..., str | None] | None:
        """Says whose certificate is no longer taken; `None` where there are none."""
        return None if self._trust is None else self._enrolments.judge

    def admits(self, node: str) -> bool:
        """Say whether a node may be taken on by what its agent says: with mutual TLS while it is enrolled."""
        return self._trust is None or self._fleet.enrolment(Identity(part=Part.NODE, name=node)) is not None

    @property
    def renew(self) -> Renewing | None:
        """Decides about new certificates; `None` where there are none."""
        return None if self._trust is None else self._enrolments.renew

    @property
    def trust(self) -> ServerTrust | None:
        """The authority and this control plane's identity; `None` without mutual TLS."""
        return self._trust


def token_file(config: ServerConfig) -> Path:
    """Where the token is that agents present without mutual TLS."""
    return Path(config.agent_token_file or Path(config.data_dir) / "agent-token")


def scheme(config: ServerConfig) -> str:
    """Give the scheme of the API's URL."""
    return "https" if config.tls is Tls.ON else "http"


def host_names(config: ServerConfig) -> tuple[str, ...]:
    """Give every name and address this control plane is reached by, for its certificate."""
    listening = [config.api_listen, config.agent_listen, *([config.agent_address] if config.agent_address else [])]
    found = [split_address(address, field="api_listen")[0] for address in listening if not is_wildcard(address)]
    if config.api_url is not None:
        found.append(urlsplit(config.api_url).hostname or "")
    if config.floating_address is not None:
        found.append(config.floating_address)
    return tuple(dict.fromkeys(name for name in (*LOOPBACK, *found, *config.host_names) if name))


def _own_certificate(config: ServerConfig) -> ServedCertificate | None:
    """Read the operator's certificate for people. Raises `InvalidInput`."""
    if config.api_certificate_file is None or config.api_key_file is None:
        return None
    return ServedCertificate(Path(config.api_certificate_file), Path(config.api_key_file), field="api_certificate_file")
