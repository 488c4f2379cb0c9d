"""The settings of a gateway."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from ledger.client.policy_files import PolicyFiles
from ledger.core.timeouts import RunLimits, Timeouts
from ledger.log.reads import KEPT_MS
from workers.gateway.provider_settings import OidcSettings, ProxySettings
from workers.gateway.quotas import Quotas

PORT_DEFAULT: Final = 8420
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Size limit of a request body; the ledger limits its members further."""

WAIT_SECONDS_MAX: Final = 300.0
"""Longest wait of one request; for a longer wait, the caller asks again."""

PAGE_COUNT_MAX: Final = 1000
"""Rows of one answer."""

REQUESTS_PER_SECOND: Final = 500.0
REQUESTS_BURST: Final = 2000.0
SIGN_INS_PER_SECOND: Final = 1.0
SIGN_INS_BURST: Final = 20.0
BROWSER_DAYS: Final = 30
SIGN_IN_LINK_MINUTES: Final = 15


LinkAnswers = Literal["once", "session", "always"]
"""The longest-lasting answer that an answer link may give."""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`policies` are the rules by dialect for sessions without own rules; `public_url` is the address for people.

    `timeouts` and `limits` are the deadlines, and the limits of runs, of new sessions that state none; an agent that
    brings no rules states no longer life of approvals. `hosts` are further accepted names, or addresses with
    their scheme. `trusted_proxies` are addresses and networks whose `X-Forwarded-For` is believed. `open_to_all` serves
    without tokens: only ever on this machine's own addresses.
    `link_answers` is the longest-lasting answer that an answer link may give. `index_file` is the index of requests, None the default one.
    `names_in_metrics`: metrics name the people who answer.
    `push_contact` is the e-mail address in push messages, which are off without it; `push_services` are further ones.
    """

    public_url: str = f"http://127.0.0.1:{PORT_DEFAULT}"
    policies: Mapping[str, PolicyFiles] = {}
    timeouts: Timeouts = Timeouts()
    limits: RunLimits = RunLimits()
    hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    open_to_all: bool = False
    link_answers: LinkAnswers = "once"
    requests_per_second: float = REQUESTS_PER_SECOND
    requests_burst: float = REQUESTS_BURST
    oidc: OidcSettings | None = None
    proxy: ProxySettings | None = None
    quotas: Quotas = Quotas()
    reads_kept_ms: int = KEPT_MS
    index_file: Path | None = None
    names_in_metrics: bool = True
    push_contact: str | None = None
    push_services: tuple[str, ...] = ()

    @property
    def secure(self) -> bool:
        """Return whether people connect over TLS, so that cookies may be bound to it."""
        return self.public_url.startswith("https:")
