"""Lookups in the indexes of the views: one script in each partition, all sent at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from redis.exceptions import ResponseError

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.admin import PROJECTORS, SKIPPED, FoundField, FoundFields
from ledger.stores.port import StreamKey
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.refusals import refusal_of
from ledger.stores.redis.script import Script

_LOOK_UP: Final = Script.named("look_up.lua")


async def look_up(store: RetriedCommands, views: Sequence[str], sought: str | int, count: int) -> FoundFields:
    """Return fields of sorted views, at most `count`, and the streams that are ahead of the views.

    `sought` is what the fields begin with, in views whose numbers are all 0, or their number.
    """
    keys = store.keys
    first, last = (sought, sought) if isinstance(sought, int) else lex_range(sought)
    order = "BYSCORE" if isinstance(sought, int) else "BYLEX"
    calls = [
        _LOOK_UP.call(
            (keys.feed(one), keys.census(one), keys.view(SKIPPED, one), *(keys.view(view, one) for view in views)),
            (first, last, count, PROJECTORS, FEED_LENGTH_COUNT, order),
        )
        for one in range(store.partition_count)
    ]
    replies = await store.evaluate_each(_LOOK_UP, calls)
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise refusal_of(reply) from reply
    return FoundFields(
        fields=sorted(FoundField(field.decode(), one) for one, reply in enumerate(replies) for field in reply[1])[
            :count
        ],
        ahead=[StreamKey.parse(name.decode()) for reply in replies for name in reply[2]],
        unsure=[one for one, reply in enumerate(replies) if not reply[0]],
    )


def lex_range(prefix: str) -> tuple[bytes, bytes]:
    """Return the bounds of the fields with a prefix, as ZRANGE BYLEX takes them."""
    return b"[" + prefix.encode(), b"(" + prefix.encode() + b"\xff"
