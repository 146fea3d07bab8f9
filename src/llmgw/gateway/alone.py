"""A gateway without a fleet: a fixed view in front of engines that already run."""

import hashlib
import secrets
import time
from collections.abc import Mapping

from llmgw.config.gateway import GatewayConfig
from llmgw.config.logging import LogLevel
from llmgw.gateway.authenticate import hash_of
from llmgw.gateway.worker_link import WorkerStart
from llmgw.relay.upstream import Endpoint
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Role
from llmgw.schema.view import ENGINE_KINDS, KeyEntry, KeysSection, Route, RouteReplica, RoutesSection, View

_KEY_ID = "alone"
_NAME = "alone"


def alone_start(
    *,
    listen: str,
    routes: Mapping[str, tuple[str, ...]],
    engine_kind: str,
    workers: int,
    key: str | None,
    log_level: LogLevel,
) -> WorkerStart:
    """Give what the workers of such a gateway are told. Raises `InvalidInput` naming what is wrong."""
    if engine_kind not in ENGINE_KINDS:
        raise InvalidInput(f"there is no engine kind {engine_kind!r}", field="engine_kind", allowed=ENGINE_KINDS)
    config = GatewayConfig(
        data_dir="",
        control_socket="",
        name=_NAME,
        listen=listen,
        workers=workers,
        log_level=log_level,
    )
    created = int(time.time())
    section = RoutesSection(
        version=1, routes=tuple(_route(name, urls, engine_kind, created) for name, urls in routes.items())
    )
    view = View(source="alone", routes=section, keys=_keys(key) if key else None)
    return WorkerStart(config=config, view=view, open_to_all=key is None, any_role=True)


def _route(name: str, urls: tuple[str, ...], kind: str, created: int) -> Route:
    for url in urls:
        Endpoint.from_url(url)  # raises for what is no URL, before anything is started
    replicas = tuple(
        RouteReplica(id=_engine(url), shard=_engine(url), node="", endpoint=url, kind=kind) for url in urls
    )
    return Route(model=name, role=Role.CHAT, created=created, replicas=replicas)


def _engine(url: str) -> str:
    """Name an engine by its URL, so that gateways that share what they know mean the same one by it."""
    return "e" + hashlib.blake2b(url.encode(), digest_size=5).hexdigest()


def _keys(key: str) -> KeysSection:
    hash_key = secrets.token_bytes(32)
    entry = KeyEntry(id=_KEY_ID, hash=hash_of(hash_key, key.encode()), project="default")
    return KeysSection(version=1, hash_key=hash_key.hex(), keys=(entry,))
