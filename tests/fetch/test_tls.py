"""Certificates: trust by host, our own certificate, and the reasons of refusals."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError, SpiderError, TlsError
from crawlframe.fetch.downloader import Downloader
from crawlframe.identity.tls import Tls, tls_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, read_settings
from crawlframe.spider.task_settings import overridden

from .conftest import CERTIFICATE, LOOPBACK, Site, listening

KINDS = ["curl", "requests"]
pytestmark = pytest.mark.filterwarnings("ignore:Unverified HTTPS")
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
USAGE = x509.KeyUsage(
    digital_signature=True, key_cert_sign=True, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, crl_sign=False, encipher_only=False,
    decipher_only=False,
)  # fmt: skip


class Issued:
    """A certificate with its key; ``issue`` makes a certificate signed by it."""

    def __init__(
        self, name: str, issuer: Issued | None = None, host: str = "127.0.0.1", days: int = 1
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = issuer or self
        address = x509.IPAddress(ipaddress.ip_address(host))
        self.certificate = (
            x509.CertificateBuilder(
                signer.subject, self.subject, self.key.public_key(), x509.random_serial_number()
            )
            .not_valid_before(NOW - 10 * DAY)
            .not_valid_after(NOW + days * DAY)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .add_extension(USAGE, critical=True)  # and the keys, as Python 3.13 demands
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False
            )
            .sign(signer.key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, form, plain)


Serve = Callable[..., str]


def whom(peer: ssl.SSLSocket) -> None:
    """Answers with a page that says whom the client's certificate names."""
    peer.recv(1 << 16)
    named: Any = (peer.getpeercert() or {}).get("subject", ((("", ""),),))
    body = named[0][0][1].encode()
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    peer.sendall(head % len(body) + body)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """``serve(chain, key, client_ca)`` starts a server and returns its URL."""
    with ExitStack() as stack:

        def start(chain: bytes, key: bytes, client_ca: bytes = b"") -> str:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            path = tmp_path / "server.pem"
            path.write_bytes(key + chain)
            context.load_cert_chain(path)
            if client_ca:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=client_ca.decode())
            return f"https://127.0.0.1:{stack.enter_context(listening(whom, context))}/"

        yield start


def fetch(*urls: str, downloader: str, tls: dict[str, Any] | None = None) -> Response:
    """The last response, by one downloader."""
    known = {host: Tls(**values) for host, values in (tls or {}).items()}

    async def main() -> Any:
        client = Downloader(Settings(allow_private=LOOPBACK))
        settings = SpiderSettings(downloader=downloader, tls=known)
        try:
            for url in urls:
                response = await client.fetch(Request(url), settings)
            return response
        finally:
            await client.close()

    response: Response = uvloop.run(main())
    return response


@pytest.mark.parametrize("downloader", KINDS)
def test_why_a_certificate_is_refused(serve: Serve, tmp_path: Path, downloader: str) -> None:
    root = Issued("Root")
    middle = Issued("Middle", root)
    (tmp_path / "root.pem").write_bytes(root.pem)
    own = {"*": {"ca": str(tmp_path / "root.pem")}}
    for issued, chain, tls, words in (
        (Issued("a", root, days=-1), b"", own, "it has expired"),
        (Issued("a", root, host="127.0.0.2"), b"", own, "it is for another name"),
        (Issued("a"), b"", own, "its issuer is unknown: "),
        (Issued("a", middle), middle.pem + root.pem, None, "its issuer is unknown: "),
        (Issued("a", middle), b"", own, "does not send .* .an incomplete chain."),
    ):
        url = serve(issued.pem + chain, issued.key_pem)
        with pytest.raises(TlsError, match=f"the certificate is refused: .*{words}"):
            fetch(url, downloader=downloader, tls=tls)
        if chain:
            assert fetch(url, downloader=downloader, tls=own).status == 200


@pytest.mark.parametrize("downloader", KINDS)
def test_no_verification_is_for_that_host_only(site: Site, downloader: str) -> None:
    site.answer("/", b"page")
    url = f"{site.tls_url}/"
    place = url.split("/")[2]
    for host in (place, "127.0.0.1", "*"):
        assert fetch(url, downloader=downloader, tls={host: {"verify": False}}).body == b"page"
    for tls in ({"localhost": {"verify": False}}, {"*": {"verify": False}, place: {}}, {}):
        with pytest.raises(TlsError, match="its issuer is unknown"):
            fetch(url, downloader=downloader, tls=tls)

    async def main() -> None:
        """A host that was trusted once, without verification, is not trusted later."""
        client = Downloader(Settings(allow_private=LOOPBACK))
        for tls in ({"*": Tls(verify=False)}, {}, {"*": Tls(ca=str(CERTIFICATE))}, {}) * 2:
            settings = SpiderSettings(downloader=downloader, tls=tls)
            if tls:
                assert (await client.fetch(Request(url), settings)).body == b"page"
            else:
                with pytest.raises(TlsError):
                    await client.fetch(Request(url), settings)
        await client.close()

    uvloop.run(main())


@pytest.mark.parametrize("downloader", KINDS)
def test_a_certificate_of_ours(serve: Serve, tmp_path: Path, downloader: str) -> None:
    root, server = Issued("Root"), Issued("a")
    client = Issued("Crawler", root)
    url = serve(server.pem, server.key_pem, root.pem)
    (tmp_path / "kläger.pem").write_bytes(client.pem)
    (tmp_path / "both.pem").write_bytes(client.key_pem + client.pem)
    (tmp_path / "key.pem").write_bytes(client.key_pem)
    apart = {"cert": str(tmp_path / "kläger.pem"), "key": str(tmp_path / "key.pem")}
    for given in (apart, {"cert": str(tmp_path / "both.pem")}):
        found = fetch(url, downloader=downloader, tls={"*": given | {"verify": False}})
        assert found.body == b"Crawler"
    gone = {"*": {"cert": str(tmp_path / "missing.pem"), "verify": False}}
    with pytest.raises(TlsError, match=r"missing\.pem"):
        fetch(url, downloader=downloader, tls=gone)


@pytest.mark.parametrize("downloader", KINDS)
def test_a_file_that_is_not_there_is_named(site: Site, downloader: str) -> None:
    site.answer("/", b"page")
    with pytest.raises(TlsError, match=r"/no/such\.pem"):
        fetch(f"{site.tls_url}/", downloader=downloader, tls={"*": {"ca": "/no/such.pem"}})


def test_other_downloaders_refuse_it(site: Site) -> None:
    with pytest.raises(TlsError, match="the setting tls is for curl and requests, not browser"):
        fetch(f"{site.tls_url}/", downloader="browser", tls={"*": {"verify": False}})
    assert site.connections == 0


def test_the_most_exact_host_counts() -> None:
    names = ("a.b.example:8443", "a.b.example", "*.b.example", "*.example", "*")
    known = {name: Tls(ca=name) for name in names}
    for name in names:
        found = tls_of(known, "https://a.b.example:8443/x")
        assert found is not None
        assert found.ca == name
        del known[name]
    assert tls_of(known, "https://a.b.example:8443/x") is None


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        ({"Example.com": {"verify": False}}, "write 'example.com' in place of 'Example.com'"),
        ({"https://example.com/": {}}, "is not a host"),
        ({"*": {"key": "k"}}, "key needs cert"),
        ({"*": {"ca": "c", "verify": False}}, "do not fit"),
        ({"*": {"verfy": False}}, "verfy"),
        ({"*": False}, "tls"),
    ],
)
def test_wrong_settings(tls: dict[str, Any], words: str) -> None:
    wrong = type("Wrong", (Spider,), {"name": "wrong", "settings": {"tls": tls}})
    with pytest.raises(SpiderError, match=words):
        read_settings(wrong)


def test_no_task_may_change_it() -> None:
    with pytest.raises(ArgumentError, match="tls is set in the code of the spider"):
        overridden(SpiderSettings(), {"tls": {"*": {"verify": False}}})
