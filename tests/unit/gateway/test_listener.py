import socket

import pytest

from llmgw.gateway.listener import CannotListen, listen


def test_a_taken_port_is_named_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port} is taken") as caught:
            listen(f"127.0.0.1:{port}", patience_s=0)
    assert str(port) in caught.value.hint


def test_an_address_of_another_machine_is_named():
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        listen("192.0.2.1:0", patience_s=0)


def test_a_port_is_free_again_at_once():
    with listen("127.0.0.1:0") as first:
        port = first.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = accept(first)
        served.close()  # our side closes first: the port lingers in TIME_WAIT
        client.close()
    with listen(f"127.0.0.1:{port}", patience_s=0) as second:
        assert second.getsockname()[1] == port


def accept(listener: socket.socket):
    listener.setblocking(True)
    return listener.accept()
