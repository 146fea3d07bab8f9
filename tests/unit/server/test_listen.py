import socket
import stat

import pytest

from llmgw.schema.errors import Conflict, InvalidInput
from llmgw.server.listen import bind_tcp, bind_unix


def test_a_port_in_use_is_named_with_its_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Conflict) as caught:
            bind_tcp(f"127.0.0.1:{port}", field="api_listen")
    assert f"port {port} is in use" in caught.value.message
    assert "api_listen" in caught.value.message
    assert str(port) in caught.value.hint


def test_a_free_port_is_bound():
    with bind_tcp("127.0.0.1:0", field="api_listen") as sock:
        assert sock.getsockname()[1] > 0


def test_an_address_that_is_not_ours_is_named():
    with pytest.raises(InvalidInput, match=r"192\.0\.2\.1:0"):
        bind_tcp("192.0.2.1:0", field="agent_listen")


def test_a_unix_socket_is_for_its_owner_only(tmp_path):
    path = tmp_path / "hub.sock"
    with bind_unix(path, field="gateway_socket"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_unix_socket_that_a_dead_process_left_is_replaced(tmp_path):
    path = tmp_path / "hub.sock"
    bind_unix(path, field="gateway_socket").close()
    with bind_unix(path, field="gateway_socket") as sock, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        sock.setblocking(True)
        sock.accept()[0].close()


def test_a_unix_socket_somebody_listens_on_is_left_alone(tmp_path):
    path = tmp_path / "hub.sock"
    with bind_unix(path, field="gateway_socket"), pytest.raises(Conflict, match="another control plane"):
        bind_unix(path, field="gateway_socket")


def test_a_file_in_the_place_of_a_unix_socket_is_not_removed(tmp_path):
    path = tmp_path / "hub.sock"
    path.write_text("mine")
    with pytest.raises(InvalidInput, match="is no socket"):
        bind_unix(path, field="gateway_socket")
    assert path.read_text() == "mine"


def test_a_path_too_long_for_a_unix_socket_is_told_before_binding(tmp_path):
    with pytest.raises(InvalidInput, match="longer"):
        bind_unix(tmp_path / ("x" * 120), field="gateway_socket")
