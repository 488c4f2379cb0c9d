"""Sends one encrypted message to one device (RFC 8030, RFC 8291), and says what became of it.

A push service is somebody else's: it is called with a time limit, no redirect is followed, and little of its response
is read. Nothing of the address or the keys is logged. Push services know the messages of a deployment by its VAPID key
(RFC 8292), which is derived from the deployment's secret, as the key of answer links is at first: gateways and
notifiers have the same one, and nothing more is stored. Another key would end all subscriptions.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256, sha512
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import SplitResult, urlunsplit

import httpx2
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from webpush import WebPush, WebPushSubscription

from ledger.access.notifications import Device
from workers.webpush.services import PushAddressError, PushServices

PURPOSE: Final = b"permission-ledger web push key v1"

ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the group of P-256."""


class VapidKey:
    """The key pair; it never shows its private part."""

    def __init__(self, secret: bytes) -> None:
        # 512 bits modulo a number of 256: no scalar is measurably likelier than another.
        scalar = int.from_bytes(hmac.new(secret, PURPOSE, sha512).digest()) % (ORDER - 1) + 1
        self._private = ec.derive_private_key(scalar, ec.SECP256R1())

    @property
    def public(self) -> str:
        """Return the public key as `PushManager.subscribe` takes it: an uncompressed point in base64url."""
        point = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return urlsafe_b64encode(point).rstrip(b"=").decode()

    @property
    def pems(self) -> tuple[bytes, bytes]:
        """Return private and public key as PEM, for the encryption library alone."""
        private = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = self._private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return private, public


log = logging.getLogger(__name__)

PAYLOAD_BYTES_MAX: Final = 3000
"""Push services take records of 4,096 bytes, encrypted; some take less than all of it."""

RESPONSE_BYTES_MAX: Final = 4096
SIGNATURE_SECONDS: Final = 12 * 3600
"""The life of a signature, of at most a day (RFC 8292, section 2)."""

TTL_SECONDS_MAX: Final = 28 * 86_400
"""The longest time for which push services keep a message."""

TOPIC_CHARS: Final = 32
"""The longest topic (RFC 8030, section 5.4)."""

GONE: Final = frozenset({404, 410})

Sent = Literal["accepted", "gone", "failed"]
"""`gone`: the push service does not know the subscription any more."""


class PushMessage(NamedTuple):
    """The payload for the service worker. A message replaces an undelivered one of the same topic."""

    payload: dict[str, Any]
    topic: str
    ttl_seconds: int
    urgency: Literal["normal", "high"] = "normal"


class _Origin(NamedTuple):
    scheme: str
    host: str


def topic_of(names: Sequence[str]) -> str:
    """Return the topic of a message about something with these names, which it does not tell."""
    digest = sha256("\n".join(names).encode()).digest()
    return urlsafe_b64encode(digest).decode()[:TOPIC_CHARS]


class PushSender:
    """Sends messages in the name of this deployment. `contact` is the e-mail address for a push service's operator."""

    def __init__(self, key: VapidKey, contact: str, services: PushServices, timeout_seconds: float) -> None:
        private, public = key.pems
        self._push = WebPush(private_key=private, public_key=public, subscriber=contact)
        self._contact = contact
        self._services = services
        self._timeout_seconds = timeout_seconds
        # The certificates that this machine trusts, also by SSL_CERT_FILE.
        self._trusted = ssl.create_default_context()

    def check(self, device: Device) -> None:
        """Raise PushAddressError for a device that no message could be encrypted for, or sent to."""
        self._services.check(device.endpoint)
        self._encrypted(device, PushMessage({}, "", 0))

    async def send(self, device: Device, message: PushMessage) -> Sent:
        """Send a message in time. Failures are logged without the address, never raised."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                status = await self._post(device, message)
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            log.warning("push: device %s was not reached: %s", device.device_id, type(error).__name__)
            return "failed"
        except PushAddressError as error:
            log.warning("push: device %s is not called: %s", device.device_id, error)
            return "failed"
        if status in GONE:
            return "gone"
        if httpx2.codes.is_success(status):
            return "accepted"
        log.warning("push: the push service of device %s answered %d", device.device_id, status)
        return "failed"

    async def _post(self, device: Device, message: PushMessage) -> int:
        parts = self._services.check(device.endpoint)
        addresses = await self._services.addresses(parts)
        body, headers = self._encrypted(device, message)
        seconds = httpx2.Timeout(self._timeout_seconds, connect=self._timeout_seconds / max(len(addresses), 1))
        async with httpx2.AsyncClient(follow_redirects=False, timeout=seconds, verify=self._trusted) as client:
            for last, target in _targets(parts, addresses):
                request = client.build_request(
                    "POST",
                    target,
                    content=body,
                    headers={**headers, "Host": parts.netloc},
                    # The certificate must be that of the name, whichever address is called.
                    extensions={"sni_hostname": parts.hostname},
                )
                try:
                    response = await client.send(request, stream=True)
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    if last:
                        raise
                    continue
                try:
                    await _read_little(response)
                finally:
                    await response.aclose()
                return response.status_code
        raise AssertionError("there is a target")

    def _encrypted(self, device: Device, message: PushMessage) -> tuple[bytes, dict[str, str]]:
        payload = msgspec.json.encode(message.payload)
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise PushAddressError(f"the message takes {len(payload)} bytes; at most {PAYLOAD_BYTES_MAX} are sent")
        try:
            subscription = WebPushSubscription.model_validate(
                {"endpoint": device.endpoint, "keys": {"p256dh": device.p256dh, "auth": device.auth}}
            )
            sealed = self._push.get(payload, subscription)
        except ValueError as error:
            raise PushAddressError("its keys are not those of a subscription") from error
        parts = self._services.check(device.endpoint)
        # The library leaves out the port, which belongs to the origin that is signed (RFC 8292, section 2).
        host = parts.netloc.lower().removesuffix(":443")
        authorization = self._push.vapid.get_authorization_header(
            cast("Any", _Origin("https", host)), self._contact, SIGNATURE_SECONDS
        )
        ttl = max(0, min(message.ttl_seconds, TTL_SECONDS_MAX))
        return sealed.encrypted, {
            "Authorization": authorization,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(ttl),
            "Topic": message.topic,
            "Urgency": message.urgency,
        }


def _targets(parts: SplitResult, addresses: Sequence[str]) -> list[tuple[bool, str]]:
    """Return the addresses to post to, and whether each is the last: the endpoint, with its host replaced."""
    port = "" if parts.port is None else f":{parts.port}"
    places = [f"[{one}]{port}" if ":" in one else f"{one}{port}" for one in addresses] or [parts.netloc]
    return [(index == len(places), urlunsplit(parts._replace(netloc=one))) for index, one in enumerate(places, 1)]


async def _read_little(response: httpx2.Response) -> None:
    """Read a bounded part of a response, so that an endless one keeps nothing."""
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > RESPONSE_BYTES_MAX:
            return
