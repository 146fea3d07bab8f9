"""Three machines that trust nobody but each other: a control plane with a gateway, a node, and a stranger's.

Machines are network namespaces; processes, certificates and the engine are real.
"""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

import pytest

from llmgw.schema.identity import Part
from llmgw.testing.gguf import write_counting_model
from llmgw.testing.identities import Cluster
from llmgw.testing.lab import network
from llmgw.testing.lab.network import Network
from llmgw.testing.lab.part import Part as Program
from llmgw.testing.lab.visitor import Visitor

API, AGENTS, DOOR, GATEWAY = 8800, 8801, 8802, 8000
WAIT_S = 90.0
JOIN_TOKEN = re.compile(r"lj_[A-Za-z0-9]{40}\.[A-Za-z0-9_-]{43}\n")


class Machines:
    """All of it, joined and serving one model."""

    def __init__(self, root):
        self.root = root
        self.net = Network(("cp", "node", "away"))
        self.programs = {}

    def __enter__(self):
        self.net.__enter__()
        self.away = Visitor(self.net, "away")
        self.at = self.net.addresses
        return self

    def __exit__(self, *_):
        for program in reversed(self.programs.values()):
            program.end()
        if (self.root / "agent.toml").exists():
            self.run("node", "agent", "--config", self.root / "agent.toml", "--stop-engines", check=False)
        self.away.close()
        self.net.__exit__()

    def configure(self):
        model = self.root / "weights" / "counting.gguf"
        model.parent.mkdir()
        write_counting_model(model)
        self.model = str(model)
        cp, node = self.at["cp"], self.at["node"]
        self.write("server", api_listen=f"{cp}:{API}", agent_listen=f"{cp}:{AGENTS}", name="cp", tls="on")
        self.write(
            "agent",
            servers=[f"{cp}:{AGENTS}"],
            node_id="n1",
            address=node,
            door_listen=f"{node}:{DOOR}",
            weights_dirs=[str(model.parent)],
            heartbeat_s=1.0,
            tls="on",
        )
        socket_path = str(self.root / "server" / "hub.sock")
        self.write("gateway", control_socket=socket_path, listen=f"{cp}:{GATEWAY}", name="g1", workers=1, tls="on")

    def write(self, process, **settings):
        settings = {"data_dir": str(self.root / process), "log_format": "json", **settings}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        (self.root / f"{process}.toml").write_text(text)

    def start(self, host, process):
        argv = (*self.net.enter(host), *_llmgw(process, "--config", self.root / f"{process}.toml"))
        self.programs[process] = Program(argv, log=self.root / f"{process}.log")
        self.programs[process].start()

    def run(self, host, *words, stdin="", check=True, **env):
        argv = (*self.net.enter(host), *_llmgw(*words))
        return subprocess.run(
            argv, input=stdin, text=True, capture_output=True, env={**os.environ, **env}, check=check, timeout=60
        )

    def ctl(self, *words, check=True):
        env = {"LLMGW_API": f"https://{self.at['cp']}:{API}", "LLMGW_CA_FILE": str(self.authority)}
        return self.run("cp", "ctl", *words, check=check, LLMGW_TOKEN=self.credentials["admin_token"], **env)

    def join(self, process, token, *words):
        host = "node" if process == "agent" else "cp"
        config = self.root / f"{process}.toml"
        return self.run(host, process, "join", "--config", config, *words, stdin=token, check=False)

    @property
    def authority(self):
        return self.root / "server" / "identity" / "authority.pem"

    @property
    def credentials(self):
        return json.loads((self.root / "server" / "credentials.json").read_text())

    def log(self, process):
        return (self.root / f"{process}.log").read_text()

    def listening(self, host):
        """Give the ports on which anything of a machine listens, by address."""
        told = subprocess.run(
            [*self.net.enter(host), shutil.which("ss"), "-Hltn"], text=True, capture_output=True, check=True, timeout=20
        ).stdout
        return {line.split()[3] for line in told.splitlines()}

    def until(self, what, wanted):
        deadline = time.monotonic() + WAIT_S
        while not (found := wanted()):
            if time.monotonic() > deadline:
                logs = "\n".join(f"{process}: {self.log(process)[-2000:]}" for process in self.programs)
                raise TimeoutError(f"{what}\n{logs}")
            time.sleep(0.1)
        return found


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    reason = network.missing() or (None if shutil.which("ss") else "not installed: ss")
    if reason is not None:
        pytest.skip(reason)
    with Machines(tmp_path_factory.mktemp("trust")) as machines:
        machines.configure()
        machines.start("cp", "server")
        machines.until("a leader", lambda: "leader.leads" in machines.log("server"))
        _join_all(machines)
        for host, process in (("node", "agent"), ("cp", "gateway")):
            machines.start(host, process)
        machines.ctl("model", "serve", "counting", "--source", machines.model)
        machines.until("the model answers", lambda: _chat(machines).startswith("HTTP/1.1 200"))
        yield machines


def _join_all(machines):
    token = machines.ctl("node", "token", "n1").stdout
    assert JOIN_TOKEN.fullmatch(token), token
    joined = machines.join("agent", token)
    assert joined.returncode == 0, joined.stderr
    assert joined.stdout.startswith("joined as node n1; the certificate ends ")
    via = f"{machines.at['cp']}:{AGENTS}"
    joined = machines.join("gateway", machines.ctl("gateway", "token", "g1").stdout, "--via", via)
    assert joined.returncode == 0, joined.stderr


def test_a_stranger_reaches_api_agent_link_gateway_and_door_and_nothing_else(machines):
    engines = [one for one in machines.listening("node") if not one.startswith(machines.at["node"])]
    assert engines, "the engine listens on loopback"
    for host, allowed in (("cp", {API, AGENTS, GATEWAY}), ("node", {DOOR})):
        address = machines.at[host]
        ports = {int(one.rpartition(":")[2]) for one in machines.listening(host)}
        reached = {port for port in ports if machines.away.run(lambda port=port, at=address: _connects(at, port))}
        assert reached == allowed, f"{host}: listens on {ports}"


def test_clients_are_served_through_the_door_of_another_machine(machines):
    answer = _chat(machines)
    assert '"content":' in answer, answer
    log = (machines.root / "gateway.log").read_text()
    assert "Traceback" not in log, log


def test_the_door_lets_in_gateways_of_the_cluster_only(machines, tmp_path):
    door = (machines.at["node"], DOOR)
    assert machines.away.run(lambda: _asks(door, _anybody())) is None
    for part in (Part.GATEWAY, Part.SERVER):
        foreign = Cluster().join(tmp_path / part, part, "g1")
        assert machines.away.run(lambda foreign=foreign: _asks(door, _shows(foreign.file))) is None
    assert machines.away.run(lambda: _asks(door, _shows(machines.root / "agent" / "identity" / "identity.pem"))) is None
    gateway = machines.root / "gateway" / "identity" / "identity.pem"
    assert (machines.away.run(lambda: _asks(door, _shows(gateway))) or "").startswith("HTTP/1.1 200")
    machines.until("the refusal is logged", lambda: "tls." in (machines.root / "agent" / "door.log").read_text())


def test_a_token_works_once_for_its_name_and_is_void_in_other_hands(machines):
    token = machines.ctl("node", "token", "n2").stdout
    stolen = machines.join("agent", token)
    assert stolen.returncode == 1
    assert "is for node n2, not for node n1; it is void now" in stolen.stderr
    assert token.strip() not in stolen.stderr
    reused = machines.join("agent", token)
    assert "was used or made void" in reused.stderr
    for reason in ("it is void now", "was used or made void"):
        assert any('"join.refused"' in line and reason in line for line in machines.log("server").splitlines())
    kinds = {event["kind"] for event in json.loads(machines.ctl("-o", "json", "events").stdout)["events"]}
    assert {"join.token", "join.joined", "join.stolen"} <= kinds


def test_a_token_is_sent_to_nobody_but_its_cluster(machines):
    token = machines.ctl("node", "token", "n1").stdout
    secret, _, pin = token.strip().partition(".")
    wrong = machines.join("agent", f"{secret}.{pin[::-1]}")
    assert wrong.returncode == 1
    assert "not of the cluster that made the join token: nothing was sent to it" in wrong.stderr
    right = machines.join("agent", token)
    assert right.returncode == 0, right.stderr


def test_no_secret_is_in_any_log_or_command_line(machines):
    texts = [path.read_text(errors="replace") for path in machines.root.rglob("*.log")]
    assert texts
    for text in texts:
        assert not re.search(r"lj_[A-Za-z0-9]{20}", text)
        assert "PRIVATE KEY" not in text
    assert (machines.root / "agent" / "identity" / "identity.pem").stat().st_mode & 0o777 == 0o600
    assert (machines.root / "server" / "identity" / "authority-secret").stat().st_mode & 0o777 == 0o600


def test_an_agent_without_or_with_a_foreign_certificate_is_refused_and_logged(machines, tmp_path):
    link = (machines.at["cp"], AGENTS)
    before = machines.log("server").count('"tls.refused"')
    foreign = Cluster().join(tmp_path, Part.NODE, "n1")
    assert machines.away.run(lambda: _asks(link, _shows(foreign.file))) is None
    machines.until("the refusal is logged", lambda: machines.log("server").count('"tls.refused"') > before)


def test_a_removed_node_is_let_go_at_once_and_comes_back_only_with_a_new_token(machines):
    began = time.monotonic()
    machines.ctl("node", "remove", "n1")
    machines.until("it is let go", lambda: "not known here" in machines.log("agent"))
    assert time.monotonic() - began < WAIT_S / 3
    assert json.loads(machines.ctl("-o", "json", "node", "list").stdout)["nodes"] == []
    joined = machines.join("agent", machines.ctl("node", "token", "n1").stdout)
    assert joined.returncode == 0, joined.stderr
    # A new certificate is taken from the disk within a minute; who cannot wait starts the agent again.
    machines.programs["agent"].end()
    machines.start("node", "agent")
    machines.until("it is back", lambda: "n1" in machines.ctl("node", "list").stdout)
    machines.until("the model answers", lambda: _chat(machines).startswith("HTTP/1.1 200"))


def _llmgw(*words):
    return (sys.executable, "-m", "llmgw", *map(str, words))


def _connects(address, port):
    try:
        with socket.create_connection((address, port), timeout=3.0):
            return True
    except OSError:
        return False


def _anybody():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _shows(identity):
    context = _anybody()
    context.load_cert_chain(identity)
    return context


def _asks(address, context, path="/healthz"):
    """Give what a listener answers; `None` when it lets nobody in."""
    try:
        with socket.create_connection(address, timeout=5.0) as plain, context.wrap_socket(plain) as secure:
            secure.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            return secure.recv(4096).decode() or None
    except OSError:
        return None


def _chat(machines):
    body = json.dumps({"model": "counting", "messages": [{"role": "user", "content": "1 2 3"}], "max_tokens": 4})
    key = machines.credentials["api_key"]
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    )

    def ask():
        trust = ssl.create_default_context(cafile=str(machines.authority))
        trust.check_hostname = False
        answer = b""
        try:
            address = (machines.at["cp"], GATEWAY)
            with socket.create_connection(address, timeout=30.0) as plain, trust.wrap_socket(plain) as secure:
                secure.sendall(request.encode())
                while part := secure.recv(65536):
                    answer += part
        except OSError:
            return ""
        return answer.decode()

    return machines.away.run(ask)
