import re

from llmgw.server.identity import (
    SecretKind,
    hash_secret,
    new_holder_id,
    new_replica_id,
    new_secret,
    public_id,
    same_secret,
)
from llmgw.telemetry.log import redact


def test_a_replica_id_is_r_and_ten_base32_characters():
    assert re.fullmatch(r"r[a-z2-7]{10}", new_replica_id())
    assert len({new_replica_id() for _ in range(1000)}) == 1000


def test_each_start_has_a_holder_id_of_its_own():
    assert new_holder_id() != new_holder_id()


def test_a_secret_tells_its_kind_and_public_id():
    for kind, prefix in ((SecretKind.API_KEY, "lk_"), (SecretKind.ADMIN_TOKEN, "lt_"), (SecretKind.ENGINE_KEY, "le_")):
        secret = new_secret(kind)
        assert secret.startswith(prefix)
        assert public_id(secret) == secret[:11]
        assert re.fullmatch(r"l[kte]_[A-Za-z0-9]{40}", secret)


def test_logs_keep_a_secrets_public_id_and_nothing_more():
    secret = new_secret(SecretKind.API_KEY)
    assert redact(f"key {secret} used") == f"key {public_id(secret)} [redacted] used"


def test_a_hash_depends_on_key_and_secret():
    assert hash_secret(b"k", "s") == hash_secret(b"k", "s")
    assert len({hash_secret(b"k", "s"), hash_secret(b"K", "s"), hash_secret(b"k", "S")}) == 3
    assert re.fullmatch(r"[0-9a-f]{64}", hash_secret(b"k", "s"))


def test_secrets_are_compared_whole():
    assert same_secret("abc", "abc")
    assert not same_secret("abc", "abcd")
