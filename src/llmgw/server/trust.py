"""This control plane's share in the cluster's trust: the authority's key, and a certificate of its own.

identity/authority-secret     opens the authority's key in the store (mode 0600); `llmgw server join` brings it
identity/new-authority.json   an authority made here that is not in the store yet
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from llmgw.config.contexts import replace_private
from llmgw.link.certificate_request import new_request
from llmgw.link.identity import FOLDER, SECRET, TlsIdentity, write_identity, write_secret
from llmgw.ports import Clock, PutSetting, Store
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Identity, Part
from llmgw.schema.value import Value
from llmgw.server.authority import Authority, new_authority, new_secret, open_authority
from llmgw.server.fleet import Fleet
from llmgw.telemetry import log

CERTIFICATE_SETTING = "authority_certificate"
KEY_SETTING = "authority_key"
JOIN = "llmgw server join"
LOOK_S = 5.0

_log = log.get(__name__)


class _Made(Value, frozen=True, kw_only=True):
    """An authority on its way into the store."""

    certificate: str
    key: str


class ServerTrust:
    """Opened once, before anything listens."""

    def __init__(self, data_dir: Path, *, name: str, hosts: Sequence[str], fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._folder = data_dir / FOLDER
        self._data_dir = data_dir
        self._me = Identity(part=Part.SERVER, name=name)
        self._hosts = tuple(hosts)
        self._clock = clock
        self._secret = ""
        self._authority: Authority | None = None
        self._own: TlsIdentity | None = None

    @property
    def authority(self) -> Authority:
        """The authority. Only after `open`."""
        if self._authority is None:
            raise RuntimeError("the trust was not opened")
        return self._authority

    @property
    def own(self) -> TlsIdentity:
        """This control plane's identity. Only after `open`."""
        if self._own is None:
            raise RuntimeError("the trust was not opened")
        return self._own

    @property
    def secret(self) -> str:
        """What opens the authority's key: for control planes that join."""
        return self._secret

    async def open(self, store: Store) -> None:
        """Open the authority's key, and make this control plane's certificate anew: its addresses may have changed.

        Where the cluster has no authority, one is made; it becomes the cluster's once this control plane leads.
        Raises `InvalidInput` for a control plane that did not join, `StoreUnavailable`.
        """
        settings = await store.load_settings()
        stored = settings.get(CERTIFICATE_SETTING), settings.get(KEY_SETTING)
        self._secret = self._read_secret(may_make=None in stored)
        made = self._made()
        certificate, key = stored
        if certificate is None or key is None:
            made = made or self._make()
            certificate, key = made.certificate, made.key
        self._authority = await asyncio.to_thread(open_authority, certificate, key, self._secret)
        await asyncio.to_thread(self._certify)
        self._own = TlsIdentity(self._data_dir, join=JOIN)

    async def store(self) -> None:
        """Put an authority that was made here into the store; to be called while leading. A second time is a no-op."""
        fleet, made = self._fleet, self._made()
        if CERTIFICATE_SETTING not in fleet.settings and made is not None:
            await fleet.change(lambda _: () if CERTIFICATE_SETTING in fleet.settings else _writes(made))
            _log.info("trust.made", pin=self.authority.pin)
        if fleet.settings.get(CERTIFICATE_SETTING) == self.authority.certificate:
            self._made_file.unlink(missing_ok=True)

    async def keep(self) -> None:
        """Renew this control plane's certificate in time, until cancelled.

        Raises `InvalidInput` when another control plane made the cluster's authority before this one could, and when a
        backup with another authority was restored.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            self._refuse_other(self._fleet.settings.get(CERTIFICATE_SETTING))
            if self._clock.now() < self.own.renew_at:
                continue
            try:
                await asyncio.to_thread(self._certify)
            except OSError as error:
                # A full disk, most often: a third of the certificate's life, days, is left to make room.
                _log.error("trust.not_renewed", error=str(error), ends=self.own.ends.isoformat())
                continue
            self.own.reload()
            _log.info("trust.renewed", ends=self.own.ends.isoformat())

    def _certify(self) -> None:
        key, request = new_request(self._me)
        certificate = self.authority.certify(request, self._me, hosts=self._hosts, now=self._clock.now())
        write_identity(self._data_dir, key=key, certificate=certificate, authority=self.authority.certificate)

    def _read_secret(self, *, may_make: bool) -> str:
        path = self._folder / SECRET
        try:
            return path.read_text(encoding="utf-8").strip()
        except FileNotFoundError as error:
            if not may_make:
                raise InvalidInput(
                    f"this control plane has not joined its cluster: there is no {path}",
                    hint=f"have a token made where it runs already (llmgw ctl server token {self._me.name}), "
                    f"then run {JOIN} here",
                    field="tls",
                ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} cannot be read: {error}", hint=f"run {JOIN} again", field="tls") from error
        secret = new_secret()
        write_secret(self._data_dir, secret)
        return secret

    def _make(self) -> _Made:
        certificate, key = new_authority(self._secret, self._clock.now())
        made = _Made(certificate=certificate, key=key)
        replace_private(self._made_file, msgspec.json.encode(made).decode())
        return made

    def _made(self) -> _Made | None:
        try:
            return msgspec.json.decode(self._made_file.read_bytes(), type=_Made)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise InvalidInput(f"{self._made_file} cannot be read: {error}", hint="remove it", field="tls") from error

    def _refuse_other(self, certificate: str | None) -> None:
        if certificate in {None, self.authority.certificate}:
            return
        if self._fleet.observing is not None:
            raise InvalidInput(
                "the store was restored, with the certificate authority of the backup: this control plane ends itself",
                hint="start it again, and it has that authority",
                field="tls",
            )
        raise InvalidInput(
            "another control plane of this store made the cluster's authority: this one has not joined",
            hint=f"stop it, remove {self._folder}, then run {JOIN} here",
            field="tls",
        )

    @property
    def _made_file(self) -> Path:
        return self._folder / "new-authority.json"


def _writes(made: _Made) -> tuple[PutSetting, ...]:
    return (
        PutSetting(name=CERTIFICATE_SETTING, value=made.certificate),
        PutSetting(name=KEY_SETTING, value=made.key),
    )
