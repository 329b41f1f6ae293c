"""Authority: certificates for any host name, signed by one that lasts for a run."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Authority:
    """``bundle`` is the file with its own certificate, for SSL_CERT_FILE."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._made: dict[str, Path] = {}
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local pages")])
        own = (
            self._builder(self._name)
            .public_key(self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.bundle = directory / "authority.pem"
        self.bundle.write_bytes(own.public_bytes(Encoding.PEM))
        self._private = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def certificate(self, host: str) -> Path:
        """The file with key and certificate of a host."""
        if host not in self._made:
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
            made = (
                self._builder(subject)
                .public_key(self._key.public_key())
                .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
                .sign(self._key, hashes.SHA256())
            )
            path = self._directory / f"host{len(self._made)}.pem"
            path.write_bytes(self._private + made.public_bytes(Encoding.PEM))
            self._made[host] = path
        return self._made[host]

    def _builder(self, subject: x509.Name) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )
