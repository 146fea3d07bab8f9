import json
import stat

import pytest

from llmgw.schema.errors import InvalidInput
from llmgw.schema.key import AdminRole
from llmgw.server.bootstrap import agent_token, bootstrap
from llmgw.server.identity import SecretKind, hash_secret, new_secret
from llmgw.testing.cluster import Cluster, Crash

URLS = {"api_url": "http://127.0.0.1:8800"}


@pytest.fixture
async def cluster():
    cluster = Cluster()
    await cluster.run(3)
    return cluster


async def make(cluster, path):
    fleet = cluster.leader().fleet
    await bootstrap(fleet, cluster.clock, path, urls=URLS)
    return fleet


async def test_a_new_cluster_gets_a_token_and_a_key_that_open_it(cluster, tmp_path):
    path = tmp_path / "credentials.json"
    fleet = await make(cluster, path)
    secrets = json.loads(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secrets["api_url"] == URLS["api_url"]
    (token,), (key,) = fleet.admin_tokens, fleet.api_keys
    assert (token.role, token.hash) == (AdminRole.ADMIN, hash_secret(fleet.hash_key, secrets["admin_token"]))
    assert key.hash == hash_secret(fleet.hash_key, secrets["api_key"])
    assert secrets["api_key"] not in repr(fleet.api_keys)


async def test_a_second_bootstrap_changes_nothing(cluster, tmp_path):
    path = tmp_path / "credentials.json"
    await make(cluster, path)
    text, applied = path.read_text(), cluster.store.applied
    await make(cluster, path)
    assert path.read_text() == text
    assert cluster.store.applied == applied


async def test_secrets_of_a_file_that_is_there_are_taken_over(cluster, tmp_path):
    path = tmp_path / "credentials.json"
    secrets = {
        "api_key": new_secret(SecretKind.API_KEY),
        "admin_token": new_secret(SecretKind.ADMIN_TOKEN),
        "model": "kept",
    }
    path.write_text(json.dumps(secrets))
    fleet = await make(cluster, path)
    assert fleet.api_keys[0].hash == hash_secret(fleet.hash_key, secrets["api_key"])
    assert json.loads(path.read_text()) == secrets


async def test_a_removed_file_is_not_made_again_for_a_cluster_that_has_tokens(cluster, tmp_path):
    path = tmp_path / "credentials.json"
    fleet = await make(cluster, path)
    path.unlink()
    await make(cluster, path)
    assert not path.exists()
    assert len(fleet.admin_tokens) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("count", [0, 1])
async def test_a_crash_on_the_way_leaves_secrets_that_the_next_start_makes_good(cluster, tmp_path, moment, count):
    path = tmp_path / "credentials.json"
    left = iter(range(count))

    def crash():
        if next(left, None) is None:
            setattr(cluster.store, moment, lambda: None)
            raise Crash

    setattr(cluster.store, moment, crash)
    with pytest.raises(Crash):
        await make(cluster, path)
    cluster.kill(cluster.planes[0])
    cluster.start()
    await cluster.run(10)
    fleet = await make(cluster, path)
    secrets = json.loads(path.read_text())
    assert [token.hash for token in fleet.admin_tokens] == [hash_secret(fleet.hash_key, secrets["admin_token"])]
    assert [key.hash for key in fleet.api_keys] == [hash_secret(fleet.hash_key, secrets["api_key"])]


async def test_a_file_that_is_no_credentials_file_is_named(cluster, tmp_path):
    path = tmp_path / "credentials.json"
    path.write_text("{}")
    with pytest.raises(InvalidInput, match=r"credentials\.json"):
        await make(cluster, path)


def test_the_agents_token_is_made_once_and_kept_private(tmp_path):
    path = tmp_path / "secrets" / "agent-token"
    token = agent_token(path)
    assert len(token) >= 32
    assert agent_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_empty_token_lets_nobody_in(tmp_path):
    path = tmp_path / "agent-token"
    path.write_text("\n")
    with pytest.raises(InvalidInput, match="empty"):
        agent_token(path)
