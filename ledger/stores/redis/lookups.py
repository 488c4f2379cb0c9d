"""Lookups in an index of the views: one script in each partition, all sent at once."""

from __future__ import annotations

from typing import Final

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.admin import PROJECTORS, SKIPPED, FoundFields
from ledger.stores.port import StreamKey
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.script import Script

_LOOK_UP: Final = Script.named("look_up.lua")


async def look_up(store: RetriedCommands, view: str | None, prefix: str, count: int) -> FoundFields:
    """Return the fields of a sorted view with a prefix, at most `count`, and the streams that are ahead of the views."""
    keys = store.keys
    sought = () if view is None else (*lex_range(prefix), count)
    calls = [
        _LOOK_UP.call(
            (*(keys.feed(one), keys.census(one)), *(keys.view(name, one) for name in (SKIPPED, view) if name)),
            (PROJECTORS, FEED_LENGTH_COUNT, *sought),
        )
        for one in range(store.partition_count)
    ]
    replies = await store.evaluate_each(_LOOK_UP, calls)
    for reply in replies:
        if isinstance(reply, Refusal):
            raise refusal_of(reply) from reply
    return FoundFields(
        fields=sorted(field.decode() for reply in replies for field in reply[1])[:count],
        ahead=[StreamKey.parse(name.decode()) for reply in replies for name in reply[2]],
        unsure=[one for one, reply in enumerate(replies) if not reply[0]],
    )


def lex_range(prefix: str) -> tuple[bytes, bytes]:
    """Return the bounds of the fields with a prefix, as ZRANGE BYLEX takes them."""
    return b"[" + prefix.encode(), b"(" + prefix.encode() + b"\xff"
