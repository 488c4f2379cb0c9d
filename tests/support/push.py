"""A push service of our own: an HTTPS server that takes Web Push messages, checks who signed them, and decrypts them.

Written from RFC 8030, 8188, 8291 and 8292, with nothing of the sender's code or of its library.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

RECORD_BYTES_MAX: Final = 4096
POINT_BYTES: Final = 65


class PushReceived(NamedTuple):
    """One message, decrypted: the device's path, its headers in lower case, its payload and who signed it."""

    path: str
    headers: dict[str, str]
    payload: dict[str, Any]
    claims: dict[str, Any]
    key: str


class Subscriber:
    """A browser's side of a subscription: its key pair, which only it has, and its secret."""

    def __init__(self, service: PushService, name: str) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._auth = name.encode().ljust(16, b"\0")[:16]
        self.endpoint = f"{service.url}/{name}"

    @property
    def point(self) -> bytes:
        return self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def keys(self) -> dict[str, str]:
        return {"p256dh": _text(self.point), "auth": _text(self._auth)}

    def decrypted(self, body: bytes) -> dict[str, Any]:
        """Return the payload of an `aes128gcm` body of a single record (RFC 8188 section 2, RFC 8291 section 3)."""
        salt, (size, key_bytes), sender = body[:16], struct.unpack("!LB", body[16:21]), body[21 : 21 + POINT_BYTES]
        assert key_bytes == POINT_BYTES
        assert len(body) - 21 - POINT_BYTES <= size <= RECORD_BYTES_MAX
        shared = self._private.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
        ikm = _expand(_hmac(self._auth, shared), b"WebPush: info\0" + self.point + sender, 32)
        prk = _hmac(salt, ikm)
        key = _expand(prk, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _expand(prk, b"Content-Encoding: nonce\0", 12)
        plain = AESGCM(key).decrypt(nonce, body[21 + POINT_BYTES :], None).rstrip(b"\0")
        assert plain[-1:] == b"\x02", "the last record ends with the octet 2"
        payload: dict[str, Any] = json.loads(plain[:-1])
        return payload


class PushService:
    """The server. `status` is its answer to a device, by name, or to all (`*`); the others are accepted."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[PushReceived] = []
        self.tried: list[str] = []
        self.status: dict[str, int] = {}
        self.more_headers = ""
        self.mute_once = False
        """The next message is taken, and never answered."""
        self.endless = False
        self.host = "localhost"
        """The name in the addresses of subscriptions; the certificate has `push.example` too."""
        self._subscribers: dict[str, Subscriber] = {}
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.place}"

    def subscriber(self, name: str) -> Subscriber:
        self._subscribers[f"/{name}"] = made = Subscriber(self, name)
        return made

    def to(self, name: str) -> list[PushReceived]:
        return [one for one in self.received if one.path == f"/{name}"]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the sender was killed
        finally:
            writer.close()
            self._answering.discard(task)

    async def close(self) -> None:
        answering = list(self._answering)
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.tried.append(path)
        status = self.status.get(path[1:], self.status.get("*", 201))
        if method == "POST" and status < 300 and path in self._subscribers:
            claims, key = self._signed_by(headers["authorization"])
            payload = self._subscribers[path].decrypted(body)
            self.received.append(PushReceived(path, headers, payload, claims, key))
        if self.mute_once:
            self.mute_once = False
            await reader.read()
            return
        length = "" if self.endless else "Content-Length: 0\r\n"
        writer.write(f"HTTP/1.1 {status} Said\r\n{length}{self.more_headers}Connection: close\r\n\r\n".encode())
        while self.endless:
            writer.write(b"x" * 65536)
            await writer.drain()
        await writer.drain()

    def _signed_by(self, header: str) -> tuple[dict[str, Any], str]:
        """Return the claims of a VAPID header and its key, after the check of its signature (RFC 8292, RFC 7515)."""
        scheme, _, rest = header.partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        assert scheme == "vapid"
        head, claims, signature = parts["t"].split(".")
        assert json.loads(_bytes(head)) == {"alg": "ES256", "typ": "JWT"}
        raw = _bytes(signature)
        r, s = (int.from_bytes(half) for half in (raw[:32], raw[32:]))
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(parts["k"]))
        key.verify(encode_dss_signature(r, s), f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
        said = json.loads(_bytes(claims))
        assert said["aud"] == self.url
        now = datetime.now(UTC).timestamp()
        assert now < said["exp"] <= now + 86_400
        return said, parts["k"]


@asynccontextmanager
async def push_service(folder: Path) -> AsyncIterator[PushService]:
    """A push service with a certificate of its own: `trusted(folder)` is the file that makes a program trust it."""
    one = PushService()
    certify(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "push.pem", folder / "push.key")
    server = await asyncio.start_server(one.answer, "127.0.0.1", 0, ssl=context)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        await one.close()


def trusted(folder: Path) -> Path:
    """Return the certificate for SSL_CERT_FILE."""
    return folder / "push.pem"


def certify(folder: Path) -> None:
    """Write a key and a certificate for this machine, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a push service of a test")])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.DNSName("push.example"), x509.IPAddress(ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "push.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "push.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _hmac(key: bytes, value: bytes) -> bytes:
    made = hmac.HMAC(key, hashes.SHA256())
    made.update(value)
    return made.finalize()


def _expand(prk: bytes, info: bytes, length: int) -> bytes:
    """Return HKDF-Expand of one block (RFC 5869)."""
    return _hmac(prk, info + b"\x01")[:length]


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
