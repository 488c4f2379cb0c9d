"""People authenticated by a proxy in front of the gateway; no other sender is believed."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from ledger.core.errors import UnauthorizedError
from workers.gateway.events.readers import TRANSPORT
from workers.gateway.identity.settings import ProxySettings
from workers.gateway.principals import ForbiddenError


def person_of_proxy(
    scope: Mapping[str, Any], headers: Mapping[str, list[str]], settings: ProxySettings
) -> tuple[str, set[str]]:
    """Return name and groups from the proxy's headers. Raises ForbiddenError for other senders, UnauthorizedError."""
    if not _comes_from(scope, settings):
        raise ForbiddenError("only the proxy that is named in the gateway's settings may name the person who signs in")
    secret = _only(headers, settings.secret_header)
    if secret is None or not hmac.compare_digest(secret.encode(), settings.secret.encode()):
        raise ForbiddenError(
            f"the header `{settings.secret_header}` does not hold the secret of the gateway's settings"
        )
    name = _only(headers, settings.name_header)
    if not name:
        raise UnauthorizedError(f"the proxy does not name the person: one header `{settings.name_header}` is needed")
    groups = _only(headers, settings.groups_header) or ""
    return name, {one.strip() for one in groups.split(",") if one.strip()}


def _comes_from(scope: Mapping[str, Any], settings: ProxySettings) -> bool:
    """Return whether the connection itself comes from the proxy; headers about earlier hops do not count."""
    peer = scope["extensions"][TRANSPORT].get_extra_info("peername")
    if not peer or isinstance(peer, str):
        return settings.by_socket
    address = ip_address(peer[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in settings.networks)


def _only(headers: Mapping[str, list[str]], name: str) -> str | None:
    """Return the value of a header that occurs once: of two, one may come from the person."""
    values = headers.get(name, [])
    return values[0] if len(values) == 1 else None
