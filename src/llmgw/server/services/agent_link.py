"""How agents join: the address they dial and the token they present."""

from pathlib import Path

from llmgw.config.server import ServerConfig
from llmgw.schema.admin.agent_link import AgentLink
from llmgw.server.bootstrap import agent_token


def agent_link(config: ServerConfig) -> AgentLink:
    """Give address and token. Raises `InvalidInput` when the token cannot be read."""
    path = Path(config.agent_token_file or Path(config.data_dir) / "agent-token")
    return AgentLink(address=config.agent_listen, token=agent_token(path))
