"""Who may connect as a gateway of another machine."""

import ssl
from collections.abc import Callable

from llmgw.link.identity import Holder
from llmgw.schema.identity import Identity, Part
from llmgw.schema.link import GatewayHello


class GatewayGate:
    """TLS of the gateways' listener. `judge` gives why a certificate of this cluster is no longer taken."""

    def __init__(self, context: ssl.SSLContext, judge: Callable[[Holder], str | None]) -> None:
        self.context = context
        self._judge = judge

    def refuse(self, hello: GatewayHello, holder: Holder | None) -> str | None:
        """Say why this gateway may not connect; `None`: it may. `holder`: of the certificate it showed."""
        if holder is None:
            return "its certificate is not of a part of this cluster"
        if holder.identity != Identity(part=Part.GATEWAY, name=hello.gateway):
            return f"the certificate is of {holder.identity}, not of gateway {hello.gateway}"
        return self._judge(holder)
