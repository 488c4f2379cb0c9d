"""Descriptions of requests as they are served: made once and cached within a size limit.

A description of a long call takes tens of milliseconds, and the same requests are shown again and again. It depends on
the request alone. An entry is found by the request's place in the log. It is valid only for the same values in memory,
or for values with the same digest, computed here: no digest and no version that the log claims replaces them.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from hashlib import blake2b
from operator import is_
from typing import Any, Final

import msgspec

from ledger.client.results import Pending
from ledger.log.fold_room import descriptions_room_bytes
from ledger.policy.shell.facts import DangerKind
from ledger.session.state import Request
from ledger.session.would_run.description import describe_request
from workers.gateway.plan_tree import plan_tree

OF_EACH_BYTES: Final = 1024
"""Size of a cache entry besides its text."""

_MOVING: Final = frozenset({"tier", "duration_ms", "deadline_ms", "unattended_ms", "cap_at_ms", "present"})
"""Fields of a request that change while it waits, and that no description contains."""

_FIELDS: Final = tuple(name for name in Request.__struct_fields__ if name not in _MOVING)


class _Kept(msgspec.Struct, frozen=True, gc=False):
    values: tuple[Any, ...]
    digest: bytes
    text: msgspec.Raw

    @property
    def size(self) -> int:
        # The request's own values are kept too; they are about a third as long as the text.
        return OF_EACH_BYTES + 2 * len(bytes(self.text))


class Descriptions:
    """The descriptions that were requested most recently, as JSON; `bytes_max` None is their share of the room."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self.size = 0
        self._bytes_max = descriptions_room_bytes() if bytes_max is None else bytes_max
        self._kept: OrderedDict[tuple[str, str, int], _Kept] = OrderedDict()

    def of(self, session: str, request: Request) -> msgspec.Raw:
        """Return the description of a request of this session as JSON."""
        place = (session, request.request_id, request.version)
        values = tuple(getattr(request, name) for name in _FIELDS)
        kept = self._kept.get(place)
        if kept is not None and all(map(is_, kept.values, values)):
            self._kept.move_to_end(place)
            return kept.text
        # The follower of the event stream folds the same request a second time, into values of its own.
        digest = blake2b(msgspec.msgpack.encode(values)).digest()
        text = kept.text if kept is not None and kept.digest == digest else _encoded(request)
        made = _Kept(values, digest, text)
        self._drop(place)
        self._kept[place] = made
        self.size += made.size
        while self.size > self._bytes_max:
            self._drop(next(iter(self._kept)))
        return made.text

    def forget(self, session: str, request: Request) -> None:
        """Drop the description of a request that was settled: hardly anybody looks at it again."""
        self._drop((session, request.request_id, request.version))

    def _drop(self, place: tuple[str, str, int]) -> None:
        kept = self._kept.pop(place, None)
        self.size -= 0 if kept is None else kept.size


def _encoded(request: Request) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(describe_request(request)))


@cache
def _of_this_process() -> Descriptions:
    return Descriptions()


def described(pending: Pending) -> dict[str, Any]:
    """Return `Pending.described`, with the description as encoded JSON, and `plan`, the tree of a plan's Markdown."""
    row = pending.described(_of_this_process().of(pending.session, pending.request))
    tree = plan_tree(pending.request)
    return row if tree is None else {**row, "plan": tree}


def forget_description(session: str, request: Request) -> None:
    """Drop the description of a request that does not wait any more."""
    _of_this_process().forget(session, request)


def danger_kinds_of(pending: Pending) -> set[DangerKind]:
    """Return the kinds of dangers in the description of a request."""
    made = _of_this_process().of(pending.session, pending.request)
    return {one.kind for one in _DANGERS.decode(made).dangers}


class _DangerOf(msgspec.Struct, frozen=True):
    kind: DangerKind


class _DangersOf(msgspec.Struct, frozen=True):
    dangers: tuple[_DangerOf, ...] = ()


_DANGERS: Final = msgspec.json.Decoder(_DangersOf)
