"""Lookups in an index of the views: one script in each partition, all sent at once."""

from __future__ import annotations

from typing import Final

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.admin import PROJECTORS, SKIPPED, FoundFields
from ledger.stores.keys import CENSUS
from ledger.stores.port import StreamKey
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.script import Script

_LOOK_UP: Final = Script.named("look_up.lua")


async def look_up(store: RetriedCommands, view: str | None, prefix: str, count: int) -> FoundFields:
    """Return the fields of a sorted view with a prefix, at most `count`, and the streams that are ahead of the views."""
    keys = store.keys
    arguments = (PROJECTORS, FEED_LENGTH_COUNT, *(() if view is None else (*lex_range(prefix), count)))
    partitions = range(store.partition_count)
    named = [[keys.view(name, one) for one in partitions] for name in (CENSUS, SKIPPED, view) if name]
    begin = ("EVALSHA", _LOOK_UP.sha, 1 + len(named))
    calls = [(*begin, keys.feed(one), *of_views, *arguments) for one, *of_views in zip(partitions, *named, strict=True)]
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
