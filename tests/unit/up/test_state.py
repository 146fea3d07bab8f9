import stat
from pathlib import Path

from llmgw.config.agent import AgentConfig
from llmgw.config.gateway import GatewayConfig
from llmgw.config.load import load
from llmgw.config.server import ServerConfig
from llmgw.up.configs import write_configs
from llmgw.up.layout import Layout
from llmgw.up.process import Process
from llmgw.up.state import UpState, read_state, write_state

STATE = UpState(
    gateway_port=8000,
    api_port=8800,
    agent_port=8801,
    door_port=8802,
    children=(Process(name="server", pid=7, start_time=9, boot_id="b"),),
)


def test_a_state_is_read_as_it_was_written(tmp_path: Path):
    write_state(tmp_path / "up.json", STATE)
    assert read_state(tmp_path / "up.json") == STATE
    assert stat.S_IMODE((tmp_path / "up.json").stat().st_mode) == 0o600


def test_a_damaged_state_is_no_state(tmp_path: Path):
    (tmp_path / "up.json").write_text('{"gateway_port": 80')
    assert read_state(tmp_path / "up.json") is None
    assert read_state(tmp_path / "absent.json") is None


def test_the_configurations_fit_each_other(tmp_path: Path):
    layout = Layout(root=tmp_path)
    write_configs(layout, STATE, weights_dirs=(Path("/srv/mod'els"),))
    server = load(ServerConfig, layout.config("server"))
    gateway = load(GatewayConfig, layout.config("gateway"))
    agent = load(AgentConfig, layout.config("agent"))
    assert gateway.control_socket == server.gateway_socket
    assert agent.servers == (server.agent_listen,)
    assert agent.token_file == server.agent_token_file
    assert server.gateway_url == f"http://{gateway.listen}/v1"
    assert agent.weights_dirs == ("/srv/mod'els",)
    assert len({server.data_dir, gateway.data_dir, agent.data_dir}) == 3
