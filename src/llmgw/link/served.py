"""A certificate that people's programs are shown: no client needs one of its own."""

import ssl
from pathlib import Path

from llmgw.schema.errors import InvalidInput


class ServedCertificate:
    """Certificate and key in one file or two, PEM."""

    def __init__(self, certificate: Path, key: Path, *, field: str) -> None:
        """Raises `InvalidInput` naming `field` for files that cannot be served."""
        self._files = (certificate, key)
        self._field = field
        self._seen = self._read()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        """For a listener; connections made after a `reload` are shown the new certificate."""
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._load(self.context)

    def reload(self) -> bool:
        """Take over files that were replaced; False when they are as before. Raises `InvalidInput`.

        Two files are not replaced in one moment: what does not belong together is looked at again the next time.
        """
        found = self._read()
        if found == self._seen:
            return False
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a failed load would leave the one in use without a key
        self._load(self.context)
        self._seen = found
        return True

    def _read(self) -> tuple[bytes, ...]:
        try:
            return tuple(file.read_bytes() for file in self._files)
        except OSError as error:
            raise InvalidInput(
                f"{self._field}: cannot read {error.filename}: {error.strerror}",
                hint="name a readable file",
                field=self._field,
            ) from error

    def _load(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        try:
            # An empty passphrase: without one given, OpenSSL would ask the terminal.
            context.load_cert_chain(certificate, key, password="")
        except (ssl.SSLError, OSError) as error:
            raise InvalidInput(
                f"{self._field}: {certificate} and {key} are not a certificate and its key: {_why(error)}",
                hint="write both in PEM, the certificate with its chain, the key without a passphrase",
                field=self._field,
            ) from error


def _why(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return (reason or "they hold no PEM").replace("_", " ").lower()
