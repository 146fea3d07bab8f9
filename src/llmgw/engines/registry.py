"""Engines by kind."""

from collections.abc import Mapping
from types import MappingProxyType

from llmgw.engines.adapter import Adapter
from llmgw.engines.llamacpp import LlamaCpp
from llmgw.schema.engine import EngineInstall, EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.schema.node import Host

ADAPTERS: Mapping[EngineKind, Adapter] = MappingProxyType({EngineKind.LLAMACPP: LlamaCpp()})


def adapter(kind: EngineKind) -> Adapter:
    """Give the adapter of an engine. Raises `InvalidInput` naming the kinds there are adapters for."""
    found = ADAPTERS.get(kind)
    if found is not None:
        return found
    kinds = tuple(known.value for known in ADAPTERS)
    raise InvalidInput(
        f"llmgw cannot run the engine {kind.value} yet",
        hint=f"choose one of: {', '.join(kinds)}",
        field="engine",
        allowed=kinds,
    )


def probe(host: Host) -> tuple[EngineInstall, ...]:
    """Look which engines this machine has; those that are not installed are absent."""
    found = (known.probe(host) for known in ADAPTERS.values())
    return tuple(install for install in found if install is not None)
