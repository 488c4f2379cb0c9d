"""One entry of a rule or a grant that matches a call, and its reach beyond that call."""

from __future__ import annotations

from typing import NamedTuple


class NamedEntry(NamedTuple):
    """One entry of a permission that matches a call.

    `because`: the reason why it matches more than the call, else None.
    """

    permission: str
    entry: str
    because: str | None = None


def every_call(permission: str, entry: str) -> NamedEntry:
    return NamedEntry(permission, entry, f"the narrowest rule covers every call of `{permission}`")


def without_wildcard(permission: str, entry: str, text: str, wildcards: str) -> NamedEntry:
    """Return the entry for a text, which reaches further if one of the wildcards is in it."""
    wild = next((one for one in wildcards if one in text), None)
    because = f"`{wild}` in a rule matches any text, so no rule names `{text}` alone" if wild else None
    return NamedEntry(permission, entry, because)


def named_pattern(permission: str, text: str) -> NamedEntry:
    """Return the entry of a wildcard language for one text of a permission."""
    if text == "*":
        return every_call(permission, "*")
    if permission == "external_directory" and text.endswith("/*"):
        because = f"the narrowest rule, `{permission}` `{text}`, covers everything below that folder"
        return NamedEntry(permission, text, because)
    return without_wildcard(permission, text, text, "*?")
