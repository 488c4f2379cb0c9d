"""The files of `serve --oidc` and `serve --proxy-sign-in`, checked before anything is served; role and reach by group."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from ledger.core.addresses import split_address
from ledger.core.errors import InputError
from ledger.core.ids import check_id
from ledger.core.regular_files import read_regular
from ledger.core.times import MINUTE_MS, parse_duration
from workers.gateway.principals import ForbiddenError
from workers.runtime.project_rules import require_as_trusted

PersonRole = Literal["approver", "auditor", "admin"]


class RoleOfGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[[roles]]`: the role of a group's members, in some projects or everywhere."""

    group: str
    role: PersonRole
    projects: tuple[str, ...] = ()
    everywhere: bool = False


class RoleAndReach(msgspec.Struct, frozen=True):
    """The role and reach of a person. An empty list of projects is unbounded."""

    role: PersonRole
    projects: tuple[str, ...]


def check_roles(roles: Collection[RoleOfGroup], file: str) -> None:
    """Raise InputError for a table that names neither projects nor `everywhere`, or both."""
    if not roles:
        raise InputError(f"`{file}` maps no group; add a table [[roles]] with `group`, `role` and `projects`")
    for one in roles:
        for project in one.projects:
            check_id(project, "project id")
        if bool(one.projects) == one.everywhere:
            raise InputError(
                f"`{file}`: the group `{one.group}` needs either `projects = […]` or `everywhere = true`, and not both"
            )


def granted(roles: Collection[RoleOfGroup], groups: Collection[str], name: str) -> RoleAndReach:
    """Return the role of the first matching table, with the projects of all tables with that role.

    Raises ForbiddenError for a person in none of the groups.
    """
    fitting = [one for one in roles if one.group in groups]
    if not fitting:
        raise ForbiddenError(f"`{name}` is in no group that has a role here; ask the administrator of this gateway")
    same = [one for one in fitting if one.role == fitting[0].role]
    everywhere = any(one.everywhere for one in same)
    projects = () if everywhere else tuple(dict.fromkeys(project for one in same for project in one.projects))
    return RoleAndReach(fitting[0].role, projects)


FILE_BYTES_MAX: Final = 256 * 1024
SESSION_MS_MAX: Final = 24 * 60 * MINUTE_MS
"""Upper limit of `session_ms`: without it, somebody removed from a group could answer for days."""

SKEW_MS_MAX: Final = 5 * MINUTE_MS
SECRET_CHARS_MIN: Final = 32
UNIX: Final = "unix"
"""Value of `from` for a proxy that connects to the gateway's unix socket."""

Network = IPv4Network | IPv6Network
S = TypeVar("S", bound=msgspec.Struct)


class _OidcFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    issuer: str
    client_id: str
    roles: tuple[RoleOfGroup, ...]
    client_secret_file: str | None = None
    label: str = "your organisation"
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    name_claim: str = "email"
    groups_claim: str = "groups"
    session: str = "1h"
    clock_skew: str = "60s"


class _ProxyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    addresses: tuple[str, ...] = msgspec.field(name="from")
    secret_file: str
    roles: tuple[RoleOfGroup, ...]
    label: str = "your organisation"
    secret_header: str = "X-Proxy-Secret"  # noqa: S105 - the name of a header
    name_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    session: str = "1h"


class OidcSettings(_OidcFile, frozen=True, kw_only=True):
    """A provider and its people's roles. `session_ms` limits how long a change of groups has no effect."""

    client_secret: str | None
    session_ms: int
    skew_ms: int


class ProxySettings(_ProxyFile, frozen=True, kw_only=True):
    """A proxy that authenticates people: the address it connects from, and the secret that it sends."""

    networks: tuple[Network, ...]
    by_socket: bool
    secret: str
    session_ms: int


def read_oidc(path: Path) -> OidcSettings:
    """Read the file of a provider. Raises InputError, which names the file and the mistake."""
    file = _read(path, _OidcFile)
    check_roles(file.roles, str(path))
    if not is_safe_url(file.issuer):
        raise InputError(
            f"`{path}`: the issuer `{file.issuer}` must be an https:// address, or http:// on this machine"
        )
    if "openid" not in file.scopes:
        raise InputError(f"`{path}`: `scopes` must hold `openid`")
    return OidcSettings(
        **_members(file),
        client_secret=None if file.client_secret_file is None else _secret(path, file.client_secret_file),
        session_ms=_bounded(path, "session", file.session, SESSION_MS_MAX),
        skew_ms=_bounded(path, "clock_skew", file.clock_skew, SKEW_MS_MAX),
    )


def read_proxy(path: Path) -> ProxySettings:
    """Read the file of a proxy. Raises InputError, which names the file and the mistake."""
    file = _read(path, _ProxyFile)
    check_roles(file.roles, str(path))
    if not file.addresses:
        raise InputError(
            f"`{path}`: `from` names no proxy; write its address, or `{UNIX}` for the gateway's unix socket"
        )
    secret = _secret(path, file.secret_file)
    if len(secret) < SECRET_CHARS_MIN:
        raise InputError(f"`{path}`: the secret in `{file.secret_file}` is shorter than {SECRET_CHARS_MIN} characters")
    headers = ("secret_header", "name_header", "groups_header")
    return ProxySettings(
        **{**_members(file), **{name: getattr(file, name).lower() for name in headers}},
        networks=tuple(_network(path, one) for one in file.addresses if one != UNIX),
        by_socket=UNIX in file.addresses,
        secret=secret,
        session_ms=_bounded(path, "session", file.session, SESSION_MS_MAX),
    )


def _members(file: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(file, name) for name in file.__struct_fields__}


def is_safe_url(url: str) -> bool:
    """Return whether nobody on the way can read a request to this URL."""
    parts = split_address(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and local))


def _read(path: Path, kind: type[S]) -> S:
    try:
        content = read_regular(path, FILE_BYTES_MAX) if path.is_file() else None
    except OSError as error:
        raise InputError(f"the file `{path}` cannot be read: {error.strerror or error}") from None
    if content is None:
        raise InputError(f"there is no file `{path}`")
    require_as_trusted(path, content)
    try:
        return msgspec.convert(tomllib.loads(content.decode()), kind)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(f"`{path}`: {error}") from None


def _secret(path: Path, name: str) -> str:
    """Return the text of a file; its path is relative to the settings file."""
    file = path.parent / name
    try:
        text = read_regular(file).decode().strip()
    except (OSError, ValueError):
        raise InputError(f"`{path}`: the secret `{file}` cannot be read") from None
    if not text:
        raise InputError(f"`{path}`: the secret `{file}` is empty")
    return text


def _bounded(path: Path, name: str, text: str, most_ms: int) -> int:
    ms = parse_duration(text, name)
    if ms is None or ms > most_ms:
        raise InputError(f'`{path}`: `{name} = "{text}"` is too long; at most {most_ms // MINUTE_MS} minutes')
    return ms


def _network(path: Path, text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InputError(f"`{path}`: `{text}` is not an address; write `10.0.0.5`, `10.0.0.0/28` or `{UNIX}`") from None
