"""How agents join: the address they dial and the token they present."""

from llmgw.config.server import ServerConfig
from llmgw.config.tls import Tls
from llmgw.schema.admin.agent_link import AgentLink
from llmgw.server.bootstrap import agent_token
from llmgw.server.security import token_file


def agent_link(config: ServerConfig) -> AgentLink:
    """Give address and token. Raises `InvalidInput` when the token cannot be read."""
    token = None if config.tls is Tls.ON else agent_token(token_file(config))
    return AgentLink(address=config.agent_listen, token=token)
