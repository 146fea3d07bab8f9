"""A machine's identity on disk, and TLS with it.

identity/identity.pem    key and certificate together, so that they change together (mode 0600)
identity/authority.pem   the certificates of the cluster's authority
"""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from llmgw.config.contexts import replace_private
from llmgw.core.trust import renew_at, renewal_problem
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Identity, Part
from llmgw.schema.value import Value
from llmgw.telemetry import log
from llmgw.telemetry.ration import Ration

FOLDER = "identity"
SECRET = "authority-secret"  # noqa: S105 - the name of a file
"""On control planes: what opens the authority's key in the store."""
_SCHEME = "llmgw://"

_log = log.get(__name__)


class TlsIdentity:
    """Who this machine is. Contexts that were given out take a renewed certificate at the next `reload`."""

    def __init__(self, data_dir: Path, *, join: str) -> None:
        """`join`: the command that makes an identity, for the error text.

        Raises `InvalidInput` when there is none, or one that cannot be read.
        """
        self._folder = Path(data_dir) / FOLDER
        self._join = join
        self._contexts: list[ssl.SSLContext] = []
        self._certificate = self._read()
        self.identity = _identity_in(self._certificate)

    @property
    def authority_file(self) -> Path:
        """The authority's certificates, PEM."""
        return self._folder / "authority.pem"

    @property
    def file(self) -> Path:
        """Key and certificate, PEM."""
        return self._folder / "identity.pem"

    @property
    def ends(self) -> datetime:
        """When the certificate ends."""
        return self._certificate.not_valid_after_utc

    @property
    def renew_at(self) -> datetime:
        """When it is to be renewed."""
        return renew_at(self._certificate.not_valid_before_utc, self.ends)

    def problem(self, now: datetime) -> str | None:
        """Say in words that the certificate is about to end; `None` while there is time to renew it."""
        return renewal_problem(self._certificate.not_valid_before_utc, self.ends, now)

    def listening(self, *, demand: bool = True) -> ssl.SSLContext:
        """Give a context for a listener.

        With `demand`, who has no certificate of this cluster gets no connection; without, a caller may come without
        any, but never with a foreign one.
        """
        context = _Watched(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED if demand else ssl.CERT_OPTIONAL
        context.num_tickets = 0  # a resumed session would skip the look at the certificate
        return self._fill(context)

    def dialling(self) -> ssl.SSLContext:
        """Give a context for dialling parts of this cluster.

        The caller checks `peer_identity`, not a host name: addresses change, and several may be of one machine.
        """
        context = _Watched(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        return self._fill(context)

    def serving_people(self) -> ssl.SSLContext:
        """Give a context for a listener that browsers and `ctl` use: nobody needs a certificate there."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.file)
        self._contexts.append(context)
        return context

    def reload(self) -> bool:
        """Take a certificate that was renewed on disk into all contexts. False when it is the same as before.

        Raises `InvalidInput` or `OSError` for what cannot be used; then the one from before stays in use.
        """
        found = self._read()
        if found == self._certificate:
            return False
        # A failed load would leave contexts in use without a key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self.file)
        self._certificate = found
        for context in self._contexts:
            context.load_cert_chain(self.file)
        return True

    def save(self, *, key: str, certificate: str) -> None:
        """Replace key and certificate on disk, and in all contexts.

        Raises `InvalidInput`, and changes nothing, when they do not belong together or are of somebody else; `OSError`.
        """
        _check_pair(key, certificate, self.identity)
        replace_private(self.file, key + certificate)
        self.reload()

    def _fill(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(self.authority_file)
        context.load_cert_chain(self.file)
        self._contexts.append(context)
        return context

    def _read(self) -> x509.Certificate:
        try:
            certificate = x509.load_pem_x509_certificate(self.file.read_bytes())
            self.authority_file.read_bytes()
        except FileNotFoundError as error:
            raise InvalidInput(
                f"this machine has not joined: there is no {error.filename}", hint=f"run {self._join}", field="tls"
            ) from error
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{self._folder} cannot be read: {error}", hint=f"let it join again: {self._join}", field="tls"
            ) from error
        return certificate


def write_identity(data_dir: Path, *, key: str, certificate: str, authority: str) -> None:
    """Write the identity of a machine that joined. Raises `OSError`."""
    folder = data_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private(folder / "authority.pem", authority)
    replace_private(folder / "identity.pem", key + certificate)


def write_secret(data_dir: Path, secret: str) -> None:
    """Write what opens the authority's key. Raises `OSError`."""
    (data_dir / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private(data_dir / FOLDER / SECRET, secret + "\n")


class Holder(Value, frozen=True, kw_only=True):
    """Who is at the other end, by a certificate of this cluster that was verified."""

    identity: Identity
    begins: datetime
    """When the certificate begins (notBefore)."""


def holder_of(tls: ssl.SSLObject | ssl.SSLSocket | None) -> Holder | None:
    """Give who is at the other end of a TLS connection; `None` when it showed no certificate, or no name of ours."""
    certificate: Mapping[str, Any] = (tls.getpeercert() if tls is not None else None) or {}
    identity = next((_parse(name) for kind, name in certificate.get("subjectAltName", ()) if kind == "URI"), None)
    if identity is None:
        return None
    begins = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notBefore"]), UTC)
    return Holder(identity=identity, begins=begins)


def peer_identity(tls: ssl.SSLObject | ssl.SSLSocket | None) -> Identity | None:
    """Like `holder_of`, without the date."""
    holder = holder_of(tls)
    return None if holder is None else holder.identity


def identity_in(certificate: x509.Certificate) -> Identity | None:
    """Give the name in a certificate; `None` when it holds none of ours."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return next((_parse(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)), None)


def _check_pair(key: str, certificate: str, identity: Identity) -> None:
    """Look at what is about to replace an identity that works: without it this machine would have to join again."""
    try:
        given = x509.load_pem_x509_certificate(certificate.encode())
        fits = given.public_key() == load_pem_private_key(key.encode(), None).public_key()
    except ValueError as error:
        raise InvalidInput(f"what came is no certificate: {error}", field="certificate") from error
    if not fits or identity_in(given) != identity:
        raise InvalidInput(
            f"the certificate that came is not of the key of {identity}: the one in use stays", field="certificate"
        )


def _identity_in(certificate: x509.Certificate) -> Identity:
    found = identity_in(certificate)
    if found is None:
        raise InvalidInput("the certificate in identity.pem is not of an llmgw cluster", field="tls")
    return found


def _parse(uri: str) -> Identity | None:
    part, slash, name = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not slash or not name or part not in set(Part):
        return None
    return Identity(part=Part(part), name=name)


class _WatchedObject(ssl.SSLObject):
    """Tells of handshakes that failed for a certificate: event loops keep that to themselves."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            context = self.context
            untold = context.ration.take() if isinstance(context, _Watched) else None
            if untold is not None:
                reason = getattr(error, "verify_message", None) or error.reason
                _log.warning("tls.refused", reason=reason, untold=untold)
            raise


class _Watched(ssl.SSLContext):
    sslobject_class = _WatchedObject

    def __init__(self, _protocol: int) -> None:
        self.ration = Ration()
