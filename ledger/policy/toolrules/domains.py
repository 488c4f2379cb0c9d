"""`WebFetch(domain:host)`: the host of a URL matched with a host pattern, in which `*` is any text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from ledger.core.policy import Verdict
from ledger.policy.matching.tokens import STAR, Star
from ledger.policy.matching.wildcard import Matcher, compile_tokens
from ledger.policy.toolrules.commands import WEB_FETCH
from ledger.policy.toolrules.rule import ToolRule
from ledger.policy.urls import UrlReading, ascii_host, read_address

UNREADABLE: Final = "the address cannot be read, so rules for domains cannot be evaluated"

_PREFIX: Final = "domain:"
_NOWHERE: Final = UrlReading(frozenset())
_RULES_MAX: Final = 4_096
_IN_A_LABEL: Final = Star(".")


def address_of(value: Any) -> UrlReading:
    """Return the address in the input of a call that fetches."""
    url = value.get("url") if hasattr(value, "get") else None
    return read_address(url) if isinstance(url, str) else _NOWHERE


def host_of(value: Any) -> str | None:
    """Return the host of the URL in an input if all readers agree on it, else None."""
    address = address_of(value)
    return address.host if len(address.hosts) == 1 else None


def reaches_host(rule: ToolRule, address: UrlReading) -> bool:
    """Return whether a rule for a domain matches an address: for deny and ask in any reading, for allow in all."""
    if rule.specifier is None:
        return False
    found = [matches_domain(rule.specifier, host) for host in address.hosts]
    if rule.action is Verdict.ALLOW:
        return bool(found) and bool(address.texts) and all(found)
    return any(found)


def is_unreadable(value: Any, rules: Iterable[ToolRule]) -> bool:
    """Return whether a call fetches no `http` or `https` address, while a rule denies or asks about domains."""
    if address_of(value).texts:
        return False
    return any(
        rule.tool == WEB_FETCH and rule.specifier is not None and rule.action is not Verdict.ALLOW for rule in rules
    )


def matches_domain(specifier: str, host: str) -> bool:
    """Return whether a specifier matches a host. A dot at the host's end changes nothing.

    `*` at the start is any text, so `*.example.com` matches every host below it and not `example.com`; elsewhere `*`
    matches within one label.
    """
    return _matcher(specifier)(host.rstrip("."))


@lru_cache(maxsize=_RULES_MAX)
def _matcher(specifier: str) -> Matcher:
    if not specifier.startswith(_PREFIX):
        return lambda _host: False
    wanted = ascii_host(specifier.removeprefix(_PREFIX).strip())
    head = (STAR,) if wanted.startswith("*") else ()
    return compile_tokens([*head, *(_IN_A_LABEL if one == "*" else one for one in wanted.lstrip("*"))])
