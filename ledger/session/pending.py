"""The pending requests of a session, and what its commands look up among them. Pure.

Each look-up of a command about one request costs by what it finds, not by how many requests are pending: a deadline, the
requests of a message, those that a freeze holds back. A client that connects walks over all of them.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rpds import HashTrieMap

from ledger.core.freezes import FREEZE
from ledger.core.sorted_keys import SortedKeys

if TYPE_CHECKING:
    from ledger.session.state import Request

_Deadline: TypeAlias = "tuple[int, int, str]"
"""A deadline (server ms), and the version and the id of its request."""

_Group: TypeAlias = "tuple[str, str]"

_Groups: TypeAlias = "HashTrieMap[_Group, HashTrieMap[str, bool]]"

_HELD: Final[_Group] = ("held", "")
_NO_ENTRIES: Final[HashTrieMap[Any, Any]] = HashTrieMap()
_NO_DEADLINES: Final[SortedKeys[_Deadline]] = SortedKeys()


class PendingRequests(Mapping[str, "Request"]):
    """The pending requests by id. Immutable: each change returns a new one."""

    __slots__ = ("_by_id", "_deadlines", "_groups")

    def __init__(
        self,
        by_id: HashTrieMap[str, Request] = _NO_ENTRIES,
        deadlines: SortedKeys[_Deadline] = _NO_DEADLINES,
        groups: _Groups = _NO_ENTRIES,
    ) -> None:
        self._by_id, self._deadlines, self._groups = by_id, deadlines, groups

    @classmethod
    def of(cls, requests: Iterable[Request]) -> PendingRequests:
        """Return these requests as pending."""
        pending = cls()
        for request in requests:
            pending = pending.insert(request.request_id, request)
        return pending

    # --- a map ------------------------------------------------------------------------------------------------------

    def __getitem__(self, request_id: str) -> Request:
        return self._by_id[request_id]

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._by_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingRequests) and bool(self._by_id == other._by_id)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PendingRequests({list(self.values())!r})"

    def get(self, request_id: str, default: None = None) -> Request | None:  # type: ignore[override]
        return self._by_id.get(request_id)

    def keys(self) -> KeysView[str]:
        return self._by_id.keys()

    def values(self) -> ValuesView[Request]:
        return self._by_id.values()

    def items(self) -> ItemsView[str, Request]:
        return self._by_id.items()

    # --- changes ----------------------------------------------------------------------------------------------------

    def insert(self, request_id: str, request: Request) -> PendingRequests:
        """Return the requests with one more, or with one changed."""
        known = self._by_id.get(request_id)
        deadlines, groups = self._deadlines, self._groups
        was, now = None if known is None else _deadline_of(known), _deadline_of(request)
        if was != now:
            deadlines = deadlines if was is None else deadlines.discard(was)
            deadlines = deadlines if now is None else deadlines.add(now)
        left, joined = () if known is None else _groups_of(known), _groups_of(request)
        if left != joined:
            groups = _with(_without(groups, left, request_id), joined, request_id)
        return PendingRequests(self._by_id.insert(request_id, request), deadlines, groups)

    def discard(self, request_id: str) -> PendingRequests:
        """Return the requests without one, which may not be among them."""
        known = self._by_id.get(request_id)
        if known is None:
            return self
        deadline, left, groups = _deadline_of(known), _groups_of(known), self._groups
        return PendingRequests(
            self._by_id.remove(request_id),
            self._deadlines if deadline is None else self._deadlines.discard(deadline),
            _without(groups, left, request_id) if left else groups,
        )

    # --- look-ups ---------------------------------------------------------------------------------------------------

    def first_due(self, without: Collection[str] = ()) -> Request | None:
        """Return the request with the earliest deadline, of several the one that was asked first, but none of these."""
        first = self._deadlines.first()
        if first is not None and first[2] in without:
            first = next((one for one in self._deadlines if one[2] not in without), None)
        return None if first is None else self._by_id[first[2]]

    def due(self, now_ms: int) -> list[Request]:
        """Return the requests whose deadline has passed, in order of asking."""
        due = takewhile(lambda one: one[0] <= now_ms, self._deadlines)
        return [self._by_id[request_id] for _, request_id in sorted([one[1:] for one in due])]

    def gains_time(self, now_ms: int, least_ms: int = 0) -> bool:
        """Return whether a client that connects now gives an unattended request more time, `least_ms` or more.

        A request close to its cap gains less, once.
        """
        return any(_gains_from(one) <= now_ms - max(least_ms, 1) for one in self._by_id.values())

    def held(self) -> list[Request]:
        """Return the requests that only a freeze keeps pending, in order of asking."""
        return self._of(_HELD)

    def of_message(self, message_id: str) -> list[Request]:
        """Return the requests of tool calls of one message of an agent, in order of asking."""
        return self._of(_message(message_id))

    def _of(self, group: _Group) -> list[Request]:
        found = self._groups.get(group)
        requests = [] if found is None else [self._by_id[request_id] for request_id in found]
        return sorted(requests, key=lambda request: request.version)


def is_held(request: Request) -> bool:
    """Return whether only a freeze kept a pending request from being allowed when it was asked."""
    return bool(request.opinions) and any(one.decider == FREEZE for one in request.opinions)


def _deadline_of(request: Request) -> _Deadline | None:
    return None if request.deadline_ms is None else (request.deadline_ms, request.version, request.request_id)


def _gains_from(request: Request) -> float:
    """Return the time (server ms) at which an unattended request was given its time; infinity if it gains no more."""
    deadline_ms, cap_at_ms = request.deadline_ms, request.cap_at_ms
    if request.tier != "unattended" or deadline_ms is None or request.unattended_ms is None:
        return inf
    return inf if cap_at_ms is not None and deadline_ms >= cap_at_ms else deadline_ms - request.unattended_ms


def _groups_of(request: Request) -> tuple[_Group, ...]:
    message = () if request.tool is None else (_message(request.tool.message_id),)
    return (*message, _HELD) if request.opinions and is_held(request) else message


def _message(message_id: str) -> _Group:
    return "message", message_id


def _with(groups: _Groups, joined: Iterable[_Group], request_id: str) -> _Groups:
    for group in joined:
        groups = groups.insert(group, groups.get(group, HashTrieMap()).insert(request_id, True))
    return groups


def _without(groups: _Groups, left: Iterable[_Group], request_id: str) -> _Groups:
    for group in left:
        remaining = groups[group].remove(request_id)
        groups = groups.insert(group, remaining) if remaining else groups.remove(group)
    return groups
