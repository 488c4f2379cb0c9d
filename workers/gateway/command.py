"""The gateway as the command `serve` runs it, and as a part of `up`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, closing, nullcontext
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

import msgspec

from ledger import Ledger, Timeouts
from ledger.client.machine import default_actor_name
from ledger.client.policy_files import PolicyFiles
from ledger.core.errors import InputError, SetupError
from ledger.core.extras import require_extra
from ledger.core.timeouts import RunLimits
from ledger.core.times import parse_duration
from ledger.log.reads import KEPT_MS
from ledger.stores.urls import default_home
from workers.gateway.announcement import SOCKET_NAME, announced, local_url
from workers.gateway.gateway import Gateway
from workers.gateway.metrics import exporting_spans
from workers.gateway.names import check_host, check_public_url
from workers.gateway.own_rules import read_rule_files
from workers.gateway.provider_settings import OidcSettings, ProxySettings, read_oidc, read_proxy
from workers.gateway.quotas import Quotas
from workers.gateway.server import ListenAddress, listen, parse_address, run, url_of
from workers.gateway.settings import PORT_DEFAULT, SIGN_IN_LINK_MINUTES, GatewaySettings, LinkAnswers
from workers.gateway.signing_in import sign_in_link
from workers.runtime.place import LedgerPlace
from workers.runtime.process import serve
from workers.webpush.services import PushServices, check_contact

log = logging.getLogger(__name__)

Say = Callable[[str], None]

NO_TOKENS_WARNING: Final = (
    "this gateway runs WITHOUT TOKENS: every program and every person on this machine may answer for you"
)


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    url: str | None = None
    addresses: tuple[str, ...] = ()
    public_url: str | None = None
    hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    timeouts: Timeouts = Timeouts()
    limits: RunLimits = RunLimits()
    quotas: tuple[str, ...] = ()
    reads_kept: str | None = None
    no_tokens: bool = False
    masks: bool | None = None
    """None is the setting of the environment."""
    link_answers: LinkAnswers = "once"
    names_in_metrics: bool = True
    oidc: Path | None = None
    proxy: Path | None = None
    push_contact: str | None = None
    push_services: tuple[str, ...] = ()
    parent: int | None = None
    inherited: tuple[int, ...] = ()
    """File descriptors of listening sockets that were handed down."""


def read_options(
    *,
    attended: str | None,
    unattended: str | None,
    approval_lifetime: str | None,
    claim_timeout: str | None,
    no_masks: bool,
    no_names_in_metrics: bool,
    **typed: Any,
) -> ServeOptions:
    """Return the options from their texts on the command line. Raises InputError."""
    return ServeOptions(
        timeouts=Timeouts().stated({"attended": attended, "unattended": unattended}, "--{}"),
        limits=RunLimits.read(approval_lifetime, claim_timeout, are_options=True),
        masks=False if no_masks else None,
        names_in_metrics=not no_names_in_metrics,
        **typed,
    )


async def serve_until_stopped(wanted: ServeOptions, say: Say) -> None:
    """Run a gateway until the process is told to stop. Raises InputError, SetupError, StoreError."""
    folder = LedgerPlace(wanted.url, None).folder
    addresses = [parse_address(one) for one in wanted.addresses] or _default_addresses(folder)
    settings_here = await checked_settings(wanted)

    async def work(ledger: Ledger, stop: asyncio.Event) -> None:
        with ExitStack() as stack:
            # Open the ledger first: its embedded server only takes an empty data folder.
            listeners = [stack.enter_context(closing(one)) for one in _listeners(wanted, addresses)]
            public_url = (wanted.public_url or public_url_of(listeners)).rstrip("/")
            settings = msgspec.structs.replace(settings_here, public_url=public_url)
            lines = [] if wanted.inherited else await _how_to_get_in(ledger, settings, listeners)

            def ready(_: Gateway) -> None:
                for line in lines:
                    say(line)

            async with _announced(folder, settings, listeners, ledger) as other:
                if other is not None:
                    lines.append(f"  note       programs on this machine use the gateway at {other}, which was first")
                await run(ledger, settings, listeners, stop, ready)

    with exporting_spans():
        await serve(work, wanted.url, parent=wanted.parent, masks=wanted.masks)


async def checked_settings(wanted: ServeOptions) -> GatewaySettings:
    """Return the settings but for the public address, everything checked that needs no ledger.

    An error in a rule file is reported at the start, not at the first ask. Raises InputError, SetupError.
    """
    if wanted.no_tokens and not all(parse_address(one).is_local for one in wanted.addresses):
        raise InputError("without tokens a gateway listens on this machine only: 127.0.0.1, localhost or a unix socket")
    for host in wanted.hosts:
        check_host(host)
    if wanted.public_url is not None:
        check_public_url(wanted.public_url)
    for proxy in wanted.trusted_proxies:
        check_proxy(proxy)
    _check_push(wanted)
    return _settings(wanted, await read_rule_files(wanted.rules), _identity(wanted))


def _listeners(wanted: ServeOptions, addresses: Sequence[ListenAddress]) -> list[socket.socket]:
    """Return new sockets, or those handed down by our parent: with these, nothing is refused during a restart."""
    if wanted.inherited:
        return [socket.socket(fileno=number) for number in wanted.inherited]
    return [listen(one) for one in addresses]


def _announced(
    folder: Path | None, settings: GatewaySettings, listeners: Sequence[socket.socket], ledger: Ledger
) -> AbstractAsyncContextManager[str | None]:
    """Announce our address to programs of this user. With a server of its own, only a local address is announced."""
    url = local_url(listeners, only_local=folder is None)
    if url is None:
        return nullcontext()
    return announced(folder or default_home(), url, settings.public_url, ledger.tokens)


def _identity(wanted: ServeOptions) -> tuple[OidcSettings | None, ProxySettings | None]:
    """Return the settings of both ways to sign in. Raises InputError, MissingExtraError."""
    if wanted.no_tokens and (wanted.oidc or wanted.proxy):
        raise InputError("--no-tokens lets everybody in; leave it out, or leave out --oidc and --proxy-sign-in")
    if wanted.oidc is not None:
        require_extra("oidc", "`serve --oidc`")
    return (
        None if wanted.oidc is None else read_oidc(wanted.oidc),
        None if wanted.proxy is None else read_proxy(wanted.proxy),
    )


def _settings(
    wanted: ServeOptions,
    policies: dict[str, PolicyFiles],
    identity: tuple[OidcSettings | None, ProxySettings | None],
) -> GatewaySettings:
    """Return the settings but for the public address. Raises InputError."""
    return GatewaySettings(
        policies=policies,
        timeouts=wanted.timeouts,
        limits=wanted.limits,
        hosts=wanted.hosts,
        trusted_proxies=wanted.trusted_proxies,
        open_to_all=wanted.no_tokens,
        link_answers=wanted.link_answers,
        names_in_metrics=wanted.names_in_metrics,
        oidc=identity[0],
        proxy=identity[1],
        quotas=Quotas.read(wanted.quotas),
        reads_kept_ms=_reads_kept_ms(wanted),
        push_contact=None if wanted.push_contact is None else check_contact(wanted.push_contact),
        push_services=wanted.push_services,
    )


def _check_push(wanted: ServeOptions) -> None:
    """Refuse at the start what would be refused at the first message. Raises InputError, MissingExtraError."""
    if wanted.push_contact is None:
        if wanted.push_services:
            raise InputError("--push-service needs --push-contact, the e-mail address for operators of push services")
        return
    require_extra("push", "`serve --push-contact`")
    check_contact(wanted.push_contact)
    PushServices(wanted.push_services)


def check_proxy(text: str) -> None:
    """Raise InputError for a text that is neither an address nor a network."""
    try:
        ip_network(text)
    except ValueError:
        raise InputError(
            f"the --trusted-proxy `{text}` is not an address; write it like `10.0.0.7` or `10.0.0.0/24`"
        ) from None


def _reads_kept_ms(wanted: ServeOptions) -> int:
    """Return the retention of read records, in ms. Raises InputError."""
    if wanted.reads_kept is None:
        return KEPT_MS
    kept_ms = parse_duration(wanted.reads_kept, "--reads-kept")
    if kept_ms is None:
        raise InputError("reads are not kept for ever: name a duration for --reads-kept, like `90d`")
    return kept_ms


def _default_addresses(folder: Path | None) -> list[ListenAddress]:
    over_tcp = ListenAddress(host="127.0.0.1", port=PORT_DEFAULT)
    return [over_tcp] if folder is None else [over_tcp, ListenAddress(path=folder / SOCKET_NAME)]


def public_url_of(listeners: Sequence[socket.socket]) -> str:
    """Return the address of one of these sockets for a browser on this machine."""
    urls = [url_of(one) for one in listeners]
    return next((url for url in urls if url.startswith("http")), "http://localhost")


async def _how_to_get_in(ledger: Ledger, settings: GatewaySettings, listeners: Sequence[socket.socket]) -> list[str]:
    lines = [f"  gateway    {url_of(one)}" for one in listeners]
    lines.append(f"  deadlines  {settings.timeouts.described()}, where a session states none")
    if (limits := settings.limits.described()) is not None:
        lines.append(f"  runs       {limits}, where a session states nothing else")
    if settings.open_to_all:
        log.warning(NO_TOKENS_WARNING)
        return [*lines, f"  inbox      {settings.public_url}/"]
    link = await sign_in_link(ledger.tokens, settings.public_url, default_actor_name())
    return [*lines, f"  inbox      {link}", "             (signs one browser in, once, within 15 minutes)"]


def gateway_sockets(folder: Path | None, addresses: Sequence[str]) -> list[socket.socket]:
    """Return the sockets of these addresses, and the data folder's socket unless another gateway has it already.

    Without an address, any free port is used when the usual one is taken. Raises InputError, SetupError.
    """
    if addresses:
        return [*(listen(parse_address(one)) for one in addresses), *_of_folder(folder)]
    try:
        over_tcp = listen(ListenAddress(host="127.0.0.1", port=PORT_DEFAULT))
    except SetupError:
        over_tcp = listen(ListenAddress(host="127.0.0.1"))
    return [over_tcp, *_of_folder(folder)]


def _of_folder(folder: Path | None) -> list[socket.socket]:
    if folder is None:
        return []
    try:
        return [listen(ListenAddress(path=folder / SOCKET_NAME))]
    except SetupError:
        return []  # another gateway of the same ledger answers there


async def how_to_get_in(ledger: Ledger, wanted: ServeOptions, listeners: Sequence[socket.socket]) -> list[str]:
    """Return lines for a person: the addresses, and a link that signs a browser in."""
    addresses = ["", *(f"  {url_of(one)}" for one in listeners), ""]
    public_url = (wanted.public_url or public_url_of(listeners)).rstrip("/")
    if wanted.no_tokens:
        return [*addresses, "Open the inbox:", f"  {public_url}/"]
    link = await sign_in_link(ledger.tokens, public_url, default_actor_name())
    return [
        *addresses,
        "Open the inbox (signs one browser in, once; `permission-ledger inbox` makes another link):",
        f"  {link}",
        f"  It is good for {SIGN_IN_LINK_MINUTES} minutes.",
    ]
