"""Ids by their beginning, as git has them: short ones for a person's table, and the whole one that a typed beginning means.

A beginning means one of all that are known, ended ones too. Only so can it not come to mean another request that an agent
has asked since: the one that was on the screen is still known then, and the beginning is ambiguous.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ledger.core.errors import DamageError, InputError
from ledger.core.ids import is_id
from ledger.log.viewed import REQUESTS_VIEW
from ledger.stores.port import StreamKey
from workers.cli.output import CommandOutput

if TYPE_CHECKING:
    from ledger import Ledger

NAMED_COUNT: Final = 5
BEGINNING_CHARS_MIN: Final = {"session": 8}
"""Characters of a beginning, at least 4 otherwise: people choose names like `ses_1`, which also begins `ses_12`."""

Find = Callable[["Ledger", str], Awaitable[Collection[str]]]
"""A function that returns the ids that begin so, or the whole one alone."""


async def _requests(ledger: Ledger, typed: str) -> Collection[str]:
    if (await ledger.lookups.of_request(typed)).rows:
        return [typed]
    return {one.request_id for one in await ledger.lookups.requests_beginning(typed)}


async def is_session(ledger: Ledger, typed: str) -> bool:
    """Return whether there is a session of this whole id, damaged ones included."""
    if not is_id(typed):
        return False
    try:
        (head,) = await ledger.store.heads([StreamKey("session", typed)])
    except DamageError:
        return True  # its reader says what is wrong
    return bool(head.at.version) or head.seal is not None


async def _sessions(ledger: Ledger, typed: str) -> Collection[str]:
    if await is_session(ledger, typed):
        return [typed]
    return [one async for one in ledger.sessions() if one.startswith(typed)]


async def _grants(ledger: Ledger, typed: str) -> Collection[str]:
    if (await ledger.lookups.of_grant(typed)).rows:
        return [typed]
    return await ledger.lookups.grants_beginning(typed)


async def _tokens(ledger: Ledger, typed: str) -> Collection[str]:
    return _of([one.token_id for one in await ledger.tokens.all()], typed)


async def _passkeys(ledger: Ledger, typed: str) -> Collection[str]:
    return _of([one.credential_id for one in await ledger.passkeys.all()], typed)


async def _devices(ledger: Ledger, typed: str) -> Collection[str]:
    return _of([one.device_id for one in await ledger.notifications.all()], typed)


def _of(ids: Collection[str], typed: str) -> Collection[str]:
    return [typed] if typed in ids else [one for one in ids if one.startswith(typed)]


KINDS: Final[Mapping[str, tuple[str, Find]]] = {
    "request": ("request", _requests),
    "session": ("session", _sessions),
    "sessions": ("session", _sessions),
    "parent": ("session", _sessions),
    "grant": ("grant", _grants),
    "uses_of": ("grant", _grants),
    "token_id": ("token", _tokens),
    "credential_id": ("passkey", _passkeys),
    "device_id": ("device", _devices),
}
"""The kind of id that an option or argument of this name takes, in every command."""


async def whole_ids(ledger: Ledger, output: CommandOutput, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with whole ids in place of beginnings, and tell which; what begins no id stays.

    Raises InputError for a beginning that several have.
    """
    found = dict(options)
    for name in options.keys() & KINDS.keys():
        value = options[name]
        if isinstance(value, str):
            found[name] = await _whole(ledger, output, name, value)
        elif value:
            found[name] = tuple([await _whole(ledger, output, name, one) for one in value])
    return found


async def _whole(ledger: Ledger, output: CommandOutput, name: str, typed: str) -> str:
    kind, find = KINDS[name]
    ids = await find(ledger, typed)
    if typed in ids or not ids or len(typed) < BEGINNING_CHARS_MIN.get(kind, 4):
        return typed
    if len(ids) > 1:
        raise ambiguous(kind, typed, [f"`{one}`" for one in sorted(ids)])
    (whole,) = ids
    text = f"`{typed}` is {kind} `{whole}`"
    output.aside({"info": text}, f"info: {text}")
    return whole


def ambiguous(kind: str, typed: str, candidates: Sequence[str]) -> InputError:
    """Return the refusal of a beginning, with the ids that it may mean."""
    more = f" and {len(candidates) - NAMED_COUNT} more" if len(candidates) > NAMED_COUNT else ""
    named = ", ".join(candidates[:NAMED_COUNT]) + more
    return InputError(f"`{typed}` begins the ids of several {kind}s: {named}; type more of the one you mean")


async def neighbours(ledger: Ledger, ids: Collection[str]) -> set[str]:
    """Return the request ids that come right before and after these, of all that the views know."""
    store = ledger.store

    async def beside(one: str, *, backwards: bool) -> list[str]:
        # A field is an id and its session.
        begin = one if backwards else f"{one}\n{chr(0x10FFFF)}"
        return await store.view_page(REQUESTS_VIEW, "", 1, begin, backwards=backwards)

    found = await asyncio.gather(*(beside(one, backwards=back) for one in ids for back in (False, True)))
    return {field.partition("\n")[0] for fields in found for field in fields}
