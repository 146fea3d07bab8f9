"""Which certificate authority a restored cluster has: the lost one's where it can be opened here."""

from collections.abc import Mapping

from llmgw.schema.errors import InvalidInput
from llmgw.server.authority import open_authority
from llmgw.server.security import Security
from llmgw.server.trust import CERTIFICATE_SETTING, KEY_SETTING


def kept_authority(security: Security, ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Give the settings of ours that must replace the backup's.

    Raises `InvalidInput` when the backup's authority cannot be opened here: no node of the lost cluster would trust
    this control plane, and it would not start again.
    """
    if security.trust is None:
        return {}
    certificate, key = theirs.get(CERTIFICATE_SETTING), theirs.get(KEY_SETTING)
    if certificate is None or key is None:
        return {name: ours[name] for name in (CERTIFICATE_SETTING, KEY_SETTING) if name in ours}
    try:
        open_authority(certificate, key, security.trust.secret)
    except InvalidInput as error:
        raise InvalidInput(
            "nothing was restored: the key of the backup's certificate authority cannot be opened here",
            hint="stop this control plane, empty its store and its identity folder, put authority-secret from the "
            "identity folder of a control plane of the lost cluster there (mode 0600), start it, and restore again",
            field="backup",
        ) from error
    return {}
