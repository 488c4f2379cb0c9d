"""The fold of a redaction: the content of the named versions leaves the state. Pure."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.core.events import Actor, AskedDetail, Redacted
from ledger.core.grants import Recorded, mark_redacted
from ledger.session.state import Request, SessionState, Settled


def without_content(state: SessionState, recorded: Recorded, event: Redacted) -> SessionState:
    """Return the state without the content of the versions that the event names.

    A request loses all content with that of its ask, of a reopening or of its end. The state is the same whether the
    content was there before or not.
    """
    gone = frozenset(event.versions)
    pending = state.pending
    for request in state.pending.values():
        if _is_touched(request, gone):
            pending = pending.insert(request.request_id, _emptied(request))
    settled = state.settled.replaced(
        {
            request_id: _emptied_settled(one)
            for request_id, one in state.settled.items()
            if one.version in gone or _is_touched(one.request, gone)
        }
    )
    grants = mark_redacted(state.grants, gone)
    state = replace(state, pending=pending, settled=settled, grants=grants, redacted_version=recorded.version)
    if state.rules_version in gone:
        state = replace(state, dialect="", edition=None, cwd=None, home=None, rules_redacted=True)
    return state


_EMPTY: Final = Request(
    request_id="", version=0, asked_ms=0, asker=Actor(kind="", name=""), permission="", digest="", redacted=True
)
_CONTENT: Final[dict[str, Any]] = {
    name: getattr(_EMPTY, name)
    for name in Request.__struct_fields__
    if name in (*AskedDetail.__struct_fields__, "links", "told", "reopened_reason", "redacted")
}
"""The members of a request that stem from its detail, as they are without it."""


def _is_touched(request: Request, gone: frozenset[int]) -> bool:
    if request.agreed and any(one.version in gone for one in request.agreed):
        return True
    return request.version in gone or not gone.isdisjoint(request.reopened_versions)


def _emptied(request: Request) -> Request:
    agreed = tuple([replace(one, message=None) for one in request.agreed])
    return replace(request, agreed=agreed, **_CONTENT)


def _emptied_settled(settled: Settled) -> Settled:
    request = _emptied(settled.request)
    return replace(
        settled,
        request=request,
        message=None,
        granted_patterns=(),
        edited_patterns=None,
        updated_input=None,
        input_digest=None,
    )
