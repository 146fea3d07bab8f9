import pytest

from llmgw.schema.errors import InvalidInput
from llmgw.server.authority import new_authority, new_secret
from llmgw.server.kept_authority import kept_authority
from llmgw.server.trust import CERTIFICATE_SETTING, KEY_SETTING
from llmgw.testing.clock import FakeClock


class Trust:
    def __init__(self, secret):
        self.secret = secret


class Security:
    """As much of it as is asked."""

    def __init__(self, secret):
        self.trust = None if secret is None else Trust(secret)


def settings(secret):
    certificate, key = new_authority(secret, FakeClock().now())
    return {CERTIFICATE_SETTING: certificate, KEY_SETTING: key, "hash_key": "00"}


def test_the_backups_authority_stays_where_its_key_can_be_opened():
    secret = new_secret()
    assert kept_authority(Security(secret), settings(secret), settings(secret)) == {}


def test_one_that_cannot_be_opened_is_refused_with_what_to_bring():
    with pytest.raises(InvalidInput, match="nothing was restored") as refused:
        kept_authority(Security(new_secret()), settings(new_secret()), settings(new_secret()))
    assert "authority-secret" in refused.value.hint


def test_a_backup_without_an_authority_leaves_ours():
    secret = new_secret()
    ours = settings(secret)
    kept = kept_authority(Security(secret), ours, {"hash_key": "11"})
    assert kept == {name: ours[name] for name in (CERTIFICATE_SETTING, KEY_SETTING)}


def test_without_mutual_tls_nothing_is_kept():
    assert kept_authority(Security(None), {}, settings(new_secret())) == {}
