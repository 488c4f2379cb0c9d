"""Rows of a search index: one for each request, from the events of its session, one by one. Pure.

No fold is needed: a row changes with an event of its own request, and an index keeps the rows. Each text is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from ledger.core.events import (
    Asked,
    AskedDetail,
    Cancelled,
    Expired,
    Redacted,
    Reopened,
    ReopenedDetail,
    Replied,
    RepliedDetail,
    SessionOpened,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Evaluation, Verdict
from ledger.core.times import spell_duration
from ledger.session.texts import CANCEL_CAUSES
from ledger.session.would_run import LINE_CHARS, cut, describe_asked, quoted

TEXT_CHARS: Final = 65_536
"""Characters of one text of a row; what follows is not found."""

RequestStatus = Literal["pending", "allowed", "denied", "rejected", "corrected", "expired", "cancelled"]


class SearchTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a request that words are searched in."""

    command: str = ""
    paths: str = ""
    input: str = ""
    feedback: str = ""
    rules: str = ""


class RequestBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A request at its ask: a new row. Times are server ms."""

    request_id: str
    version: int
    asked_ms: int
    permission: str
    agent: str | None
    asker: str
    call: str
    status: RequestStatus
    reason: str
    grants: tuple[str, ...]
    texts: SearchTexts
    redacted: bool


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a pending request. `texts` are added to those of the row."""

    request_id: str
    version: int
    at_ms: int
    status: RequestStatus
    reason: str
    by: str | None = None
    reply: str | None = None
    grants: tuple[str, ...] = ()
    texts: SearchTexts = SearchTexts()
    redacted: bool = False


class RequestReopened(msgspec.Struct, frozen=True, kw_only=True):
    """A settled request that is pending again, or denied. `texts` are added to those of the row."""

    request_id: str
    version: int
    at_ms: int
    status: RequestStatus
    reason: str
    texts: SearchTexts = SearchTexts()
    redacted: bool = False


class SessionBegun(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a session's requests share."""

    project: str | None
    agent: str | None
    token_id: str | None


class ContentGone(msgspec.Struct, frozen=True):
    """Content left the log at this version: rows that were made before it hold it still."""

    version: int


SearchChange = RequestBegun | RequestEnded | RequestReopened | SessionBegun | ContentGone


def search_change(recorded: Recorded) -> SearchChange | None:
    """Return the change that an event of a session makes in an index; None for none."""
    match recorded.event:
        case Asked() as event:
            return _asked(event, recorded)
        case Replied() as event:
            return _replied(event, recorded)
        case Expired() as event:
            reason = f"nobody answered within {spell_duration(event.duration_ms)}"
            return _ended(event.request_id, recorded, "expired", reason)
        case Cancelled() as event:
            said = event.detail.reason if event.detail else None
            reason = CANCEL_CAUSES[event.cause] + (f": {cut(said, LINE_CHARS)}" if said else "")
            texts = SearchTexts(feedback=_joined([said or ""]))
            return _ended(event.request_id, recorded, "cancelled", reason, by=recorded.actor.name, texts=texts)
        case Reopened() as event:
            return _reopened(event, recorded)
        case SessionOpened() as event:
            return SessionBegun(project=event.project, agent=event.agent, token_id=event.token_id)
        case Redacted():
            return ContentGone(recorded.version)
        case _:
            return None


_STATUS: Final[dict[Verdict, RequestStatus]] = {
    Verdict.ALLOW: "allowed",
    Verdict.ASK: "pending",
    Verdict.DENY: "denied",
}


def _asked(event: Asked, recorded: Recorded) -> RequestBegun:
    detail = event.detail or AskedDetail()
    call = describe_asked(event)
    operands = [one.path for one in detail.operands or ()]
    return RequestBegun(
        request_id=event.request_id,
        version=recorded.version,
        asked_ms=recorded.ms,
        permission=event.permission,
        agent=event.agent,
        asker=recorded.actor.name,
        call="content redacted" if recorded.redacted else call.in_line(LINE_CHARS),
        status=_STATUS[event.verdict],
        reason=_why(event, detail),
        grants=event.grants,
        texts=SearchTexts(
            command=_joined([*call.texts, *detail.patterns]),
            paths=_joined([detail.cwd or "", *operands]),
            input=_joined([event.tool_name or "", *texts_in(detail.input), *texts_in(detail.metadata)]),
            rules=_rules(detail.evaluation),
        ),
        redacted=recorded.redacted,
    )


def _why(event: Asked, detail: AskedDetail) -> str:
    """Return the grants, the decider after the rules, the rules, or the reason behind a verdict."""
    if event.verdict is Verdict.ALLOW and event.grants:
        return f"by grant {', '.join(event.grants)}"
    evaluation = detail.evaluation
    if evaluation is None:
        return ""
    if evaluation.verdict is not event.verdict:
        return ", ".join(f"by {one.decider}" for one in detail.opinions if one.verdict is event.verdict)
    return _grounds(evaluation)


def _grounds(evaluation: Evaluation | None) -> str:
    """Return the rules that decided, or the reason of a verdict that comes from none."""
    if evaluation is None:
        return ""
    if evaluation.rules:
        return f"rule {quoted(tuple(dict.fromkeys(one.text for one in evaluation.rules)), LINE_CHARS)}"
    return cut(evaluation.reason or "", LINE_CHARS)


def _replied(event: Replied, recorded: Recorded) -> RequestEnded:
    detail = event.detail or RepliedDetail()
    return RequestEnded(
        request_id=event.request_id,
        version=recorded.version,
        at_ms=recorded.ms,
        status=event.outcome,
        reason=_answer(event, detail),
        by=recorded.actor.name,
        reply=event.reply,
        grants=(*event.grants, *event.uses, *((event.cause.grant_id or "",) if event.cause else ())),
        texts=SearchTexts(
            feedback=_joined([detail.message or "", *(detail.edited or ())]),
            input=_joined(texts_in(detail.input)),
            rules=_rules(detail.evaluation),
        ),
        redacted=recorded.redacted,
    )


def _answer(event: Replied, detail: RepliedDetail) -> str:
    said = f": {cut(detail.message, LINE_CHARS)}" if detail.message else ""
    if event.outcome == "denied":
        return f"answered {event.reply}, but the rules of then deny it ({_grounds(detail.evaluation) or 'no reason'})"
    match event.cause.kind if event.cause else None:
        case "grant":
            return f"by grant {event.cause.grant_id if event.cause else ''}"
        case "unfrozen":
            return "the freeze ended"
        case "cascade":
            return f"{event.reply}, following {event.cause.request_id if event.cause else ''}{said}"
        case _:
            return f"{event.reply}{said}"


def _ended(
    request_id: str,
    recorded: Recorded,
    status: RequestStatus,
    reason: str,
    *,
    by: str | None = None,
    texts: SearchTexts | None = None,
) -> RequestEnded:
    return RequestEnded(
        request_id=request_id,
        version=recorded.version,
        at_ms=recorded.ms,
        status=status,
        reason=reason,
        by=by,
        texts=texts or SearchTexts(),
        redacted=recorded.redacted,
    )


def _reopened(event: Reopened, recorded: Recorded) -> RequestReopened:
    detail = event.detail or ReopenedDetail(evaluation=Evaluation(event.verdict))
    return RequestReopened(
        request_id=event.request_id,
        version=recorded.version,
        at_ms=recorded.ms,
        status=_STATUS[event.verdict],
        reason=cut(detail.reason or "the grounds of its allow changed", LINE_CHARS),
        texts=SearchTexts(rules=_rules(detail.evaluation)),
        redacted=recorded.redacted,
    )


def _rules(evaluation: Evaluation | None) -> str:
    """Return the rules that decided: their texts, layers and files."""
    refs = () if evaluation is None else evaluation.rules
    return _joined(part for one in dict.fromkeys(refs) for part in (one.text, one.layer or "", one.file or ""))


def texts_in(value: Any) -> Iterator[str]:
    """Iterate over the texts inside a JSON value, which is nested no deeper than an ask may be."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


def _joined(texts: Iterable[str]) -> str:
    """Return different texts, one a line, cut to the bound."""
    return "\n".join(dict.fromkeys(one for one in texts if one))[:TEXT_CHARS]
