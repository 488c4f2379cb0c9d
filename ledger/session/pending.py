"""The pending requests of a session, and what its commands look up among them. Pure.

Each look-up costs by what it finds, not by how many requests are pending: a deadline, the requests of a message, those
that a freeze holds back.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rpds import HashTrieMap

from ledger.core.freezes import FREEZE
from ledger.core.sorted_keys import SortedKeys

if TYPE_CHECKING:
    from ledger.session.state import Request

_Group: TypeAlias = "tuple[str, str]"

_Groups: TypeAlias = "HashTrieMap[_Group, HashTrieMap[str, bool]]"

_HELD: Final[_Group] = ("held", "")
_NO_ENTRIES: Final[HashTrieMap[Any, Any]] = HashTrieMap()
_NO_KEYS: Final[SortedKeys[tuple[int, int]]] = SortedKeys()


class PendingRequests(Mapping[str, "Request"]):
    """The pending requests by id. Immutable: each change returns a new one.

    `_by_deadline` has the deadlines (server ms) with the versions of their requests, and `_given` the times at which
    unattended requests were given their time, of those that a connecting client gives time again.
    """

    __slots__ = ("_by_deadline", "_by_id", "_given", "_groups", "_ids")

    def __init__(
        self,
        by_id: HashTrieMap[str, Request] = _NO_ENTRIES,
        ids: HashTrieMap[int, str] = _NO_ENTRIES,
        by_deadline: SortedKeys[tuple[int, int]] = _NO_KEYS,
        given: SortedKeys[tuple[int, int]] = _NO_KEYS,
        groups: _Groups = _NO_ENTRIES,
    ) -> None:
        self._by_id, self._ids = by_id, ids
        self._by_deadline, self._given, self._groups = by_deadline, given, groups

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
        by_deadline, given, groups = self._by_deadline, self._given, self._groups
        was, now = _deadline_of(known), _deadline_of(request)
        if was != now:
            by_deadline = _moved(by_deadline, was, now)
        was, now = _given_of(known), _given_of(request)
        if was != now:
            given = _moved(given, was, now)
        left, joined = _groups_of(known), _groups_of(request)
        if left != joined:
            groups = _with(_without(groups, left, request_id), joined, request_id)
        ids = self._ids
        if known is None or known.version != request.version:
            ids = (ids if known is None else ids.discard(known.version)).insert(request.version, request_id)
        return PendingRequests(self._by_id.insert(request_id, request), ids, by_deadline, given, groups)

    def discard(self, request_id: str) -> PendingRequests:
        """Return the requests without one, which may not be among them."""
        known = self._by_id.get(request_id)
        if known is None:
            return self
        return PendingRequests(
            self._by_id.remove(request_id),
            self._ids.discard(known.version),
            _moved(self._by_deadline, _deadline_of(known), None),
            _moved(self._given, _given_of(known), None),
            _without(self._groups, _groups_of(known), request_id),
        )

    # --- look-ups ---------------------------------------------------------------------------------------------------

    def first_due(self) -> Request | None:
        """Return the request with the earliest deadline; of several the one that was asked first."""
        first = self._by_deadline.first()
        return None if first is None else self._by_id[self._ids[first[1]]]

    def due(self, now_ms: int) -> list[Request]:
        """Return the requests whose deadline has passed, in order of asking."""
        versions = []
        for deadline_ms, version in self._by_deadline:
            if deadline_ms > now_ms:
                break
            versions.append(version)
        return [self._by_id[self._ids[version]] for version in sorted(versions)]

    def gains_time(self, now_ms: int, least_ms: int = 0) -> bool:
        """Return whether a client that connects now gives an unattended request more time, `least_ms` or more.

        A request close to its cap gains less, once.
        """
        first = self._given.first()
        return first is not None and first[0] + max(least_ms, 1) <= now_ms

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
    return any(one.decider == FREEZE for one in request.opinions)


def _deadline_of(request: Request | None) -> tuple[int, int] | None:
    return None if request is None or request.deadline_ms is None else (request.deadline_ms, request.version)


def _given_of(request: Request | None) -> tuple[int, int] | None:
    """Return the time at which an unattended request was given its time; None where its cap lets it gain no more."""
    if request is None or request.tier != "unattended":
        return None
    if request.deadline_ms is None or request.unattended_ms is None:
        return None
    if request.cap_at_ms is not None and request.deadline_ms >= request.cap_at_ms:
        return None
    return request.deadline_ms - request.unattended_ms, request.version


def _groups_of(request: Request | None) -> tuple[_Group, ...]:
    if request is None:
        return ()
    message = () if request.tool is None else (_message(request.tool.message_id),)
    return (*message, _HELD) if request.opinions and is_held(request) else message


def _message(message_id: str) -> _Group:
    return "message", message_id


def _moved(
    keys: SortedKeys[tuple[int, int]], was: tuple[int, int] | None, now: tuple[int, int] | None
) -> SortedKeys[tuple[int, int]]:
    if was is not None:
        keys = keys.discard(was)
    return keys if now is None else keys.add(now)


def _with(groups: _Groups, joined: Iterable[_Group], request_id: str) -> _Groups:
    for group in joined:
        groups = groups.insert(group, groups.get(group, HashTrieMap()).insert(request_id, True))
    return groups


def _without(groups: _Groups, left: Iterable[_Group], request_id: str) -> _Groups:
    for group in left:
        remaining = groups[group].remove(request_id)
        groups = groups.insert(group, remaining) if remaining else groups.remove(group)
    return groups
