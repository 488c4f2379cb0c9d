"""Results of asks and replies, and the rows of pending requests and grants."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ledger.client.grant_uses import last_uses
from ledger.core.errors import (
    AgentAction,
    CancelledError,
    CorrectedError,
    DeniedError,
    ExpiredError,
    RefusalError,
    RejectedError,
)
from ledger.core.events import TOLD, Actor, GrantBounds, Outcome
from ledger.core.grants import StandingGrant, in_force
from ledger.core.policy import Evaluation, Offer, ReplyKind, counted_effect
from ledger.core.questions import Runner, claim_id_of
from ledger.core.times import format_duration, format_time
from ledger.masks.own_input import holds_mask, with_own_texts
from ledger.project import ProjectState
from ledger.session.approvals import approvals_of, demanded, listed
from ledger.session.deadlines import latest_deadline_ms
from ledger.session.decision import shown_digest, unknown_request
from ledger.session.state import HeldClaim, Request, SessionState, Settled, in_order
from ledger.session.texts import message_of
from ledger.session.would_run import quoted, would_run

_ERRORS: dict[str, type[RefusalError]] = {
    "denied": DeniedError,
    "rejected": RejectedError,
    "corrected": CorrectedError,
    "expired": ExpiredError,
    "cancelled": CancelledError,
}


class Result(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The status of a request. `outcome` None is pending; `at_ms` is when it was settled, else asked (server ms)."""

    session: str
    request_id: str
    version: int
    outcome: Outcome | None
    reply: ReplyKind | None
    by: Actor
    at_ms: int
    message: str | None
    agent: AgentAction | None
    evaluation: Evaluation | None
    request: Request
    settled: Settled | None = None

    def __repr__(self) -> str:
        """Return a short form for debugging."""
        names = ("session", "request_id", "version", "outcome", "reply")
        said = [f"{name}={getattr(self, name)!r}" for name in names]
        return f"Result({', '.join(said)}, by={self.by.name!r}, at={self.at!r})"

    @property
    def allowed(self) -> bool:
        return self.outcome == "allowed"

    @property
    def code(self) -> str | None:
        """Return the code of the error that a refused ask raises."""
        return _ERRORS[self.outcome].code if self.outcome in _ERRORS else None

    @property
    def updated_input(self) -> Any:
        """Return the input to run the call with, where a person changed it; else None."""
        return self.settled.updated_input if self.settled is not None else None

    @property
    def told(self) -> str | None:
        """Return the prompt at which a person answered, where only the agent's side reports it; else None."""
        return self.settled.told if self.settled is not None else None

    @property
    def at(self) -> str:
        return format_time(self.at_ms)

    def error(self) -> RefusalError | None:
        """Return the error to raise where the call may not run; None while it is pending or when it is allowed."""
        if self.outcome not in _ERRORS:
            return None
        return _ERRORS[self.outcome](
            self.message or self.outcome,
            request_id=self.request_id,
            session=self.session,
            agent=self.agent,
            reasons=self.reasons,
            by=self.by.name,
            at=self.at,
            **({"feedback": self.settled.message} if self.outcome == "corrected" and self.settled else {}),
        )

    @property
    def reasons(self) -> list[Any]:
        """Return the rules that decided, and the opinions of deciders after them."""
        rules = self.evaluation.rules if self.evaluation else ()
        said = [opinion for opinion in self.request.opinions if opinion.verdict is not None]
        return [msgspec.to_builtins(one) for one in (*rules, *said)]

    def as_json(self) -> dict[str, Any]:
        """Return the object of CONTRACT's `ask, reply` row."""
        return {
            "session": self.session,
            "request_id": self.request_id,
            "version": self.version,
            "outcome": self.outcome,
            "reply": self.reply,
            "by": self.by.name,
            "at": self.at,
            "message": self.message,
            "code": self.code,
            "agent": self.agent,
            "evaluation": msgspec.to_builtins(self.evaluation),
            **({"imported": True} if self.settled is not None and self.settled.imported else {}),
            **({"redacted": True} if self.request.redacted else {}),
            **({} if self.told is None else {"told": self.told}),
            **_claim_json(self),
            **_bounds_json(self.settled),
            **_approvals_json(self.request, self.settled),
        }


def _claim_json(result: Result) -> dict[str, Any]:
    """Return the members of a claimed or reopened request; none for any other."""
    held = None if result.settled is None else result.settled.claim
    members: dict[str, Any] = {}
    if result.request.round > 1:
        members |= {"round": result.request.round, "reopened": result.request.reopened_reason}
    if held is not None:
        members["claim"] = {
            "claim_id": held.claim_id,
            "runner": held.runner,
            "by": held.by.name,
            "at": format_time(held.at_ms),
            "status": held.status,
            "may_have_run": held.status in ("open", "unknown"),
        }
    return members


def _approvals_json(request: Request, settled: Settled | None = None) -> dict[str, Any]:
    """Return the member `approvals` of a request that needs several people: who has approved, and what is missing."""
    approvals = approvals_of(request)
    if approvals is None:
        return {}
    given = [(one.by, one.at_ms, one.role, one.proof) for one in approvals.given]
    is_allowed = settled is not None and bool(settled.approvers)
    if settled is not None and is_allowed:
        given.append((settled.by, settled.at_ms, None, settled.proof))
    return {
        "approvals": {
            "needed": approvals.needed,
            "missing": 0 if is_allowed else approvals.lacking,
            "among": list(approvals.among),
            **({} if is_allowed or not approvals.lacking else {"waits_for": approvals.waits_for}),
            "given": [
                {
                    "by": by.name,
                    "at": format_time(at_ms),
                    "via": by.via,
                    "signed": proof is not None,
                    **({} if role is None else {"role": role}),
                }
                for by, at_ms, role, proof in given
            ],
        }
    }


def _bounds_json(settled: Settled | None) -> dict[str, Any]:
    """Return the member `bounds` of an answer whose grants have bounds, or patterns of the person's own."""
    if settled is None or (settled.bounds is None and settled.edited_patterns is None):
        return {}
    bounds = settled.bounds or GrantBounds()
    return {
        "bounds": {
            "expires": None if bounds.expires_in_ms is None else format_duration(bounds.expires_in_ms),
            "uses": bounds.uses,
            "patterns": None if settled.edited_patterns is None else list(settled.edited_patterns),
            "wider": bool(settled.wider),
        }
    }


def held_in(result: Result) -> HeldClaim | None:
    """Return the open claim of a result's request, if it has one."""
    held = None if result.settled is None else result.settled.claim
    return held if held is not None and held.status == "open" else None


def is_held_by(result: Result, runner: Runner) -> bool:
    """Return whether the runner holds the open claim of the result's request."""
    held = held_in(result)
    return held is not None and held.claim_id == claim_id_of(runner)


def result_of(state: SessionState, request_id: str) -> Result:
    """Return the result of a request of this session. Raises UnknownRequestError."""
    settled = state.settled.get(request_id)
    if settled is not None:
        return _settled(state, settled)
    pending = state.pending.get(request_id)
    if pending is not None:
        return _pending(state, pending)
    raise unknown_request(state, request_id)


def _pending(state: SessionState, request: Request) -> Result:
    return Result(
        session=state.session_id,
        request_id=request.request_id,
        version=request.version,
        outcome=None,
        reply=None,
        by=request.asker,
        at_ms=request.asked_ms,
        message=_message_of_pending(request),
        agent=None,
        evaluation=request.evaluation,
        request=request,
    )


def _message_of_pending(request: Request) -> str | None:
    """Return a note on who has approved a request that waits for more people, on why it is pending again, or on offers."""
    approvals = approvals_of(request)
    if approvals is not None and approvals.given:
        return f"approved by {listed(one.by.name for one in approvals.given)}; waits for {approvals.waits_for}"
    if request.reopened_reason:
        return f"pending again: {request.reopened_reason}"
    return _limits(request) if request.not_honoured or request.still_asked else None


def _limits(request: Request) -> str | None:
    """Return a note on offers that would lift nothing, or would not be enough."""
    still = f"the next such call will still ask: {'; '.join(request.still_asked)}" if request.still_asked else None
    return _idle(request) or still


def _settled(state: SessionState, settled: Settled) -> Result:
    if settled.outcome != "allowed":
        message = message_of(settled, state.language)
    elif settled.reply in ("always", "session") and settled.cause is None:
        message = _remembered(settled)
    else:
        message = None
    # `opencode-zh.md` 7.2: the agent stops its turn after a reject without feedback.
    agent: AgentAction = "stop" if settled.outcome == "rejected" else "continue"
    return Result(
        session=state.session_id,
        request_id=settled.request.request_id,
        version=settled.version,
        outcome=settled.outcome,
        reply=settled.reply,
        by=settled.by,
        at_ms=settled.at_ms,
        message=message,
        agent=state.settings.on_denied if settled.outcome == "denied" else agent,
        evaluation=settled.request.evaluation,
        request=settled.request,
        settled=settled,
    )


def _remembered(settled: Settled) -> str | None:
    """Return a note for a person whose "remember" had a limited effect; None where it is remembered."""
    request = settled.request
    idle = _idle(request)
    wanted = request.always if settled.edited_patterns is None else settled.edited_patterns
    standing = [entry for entry in dict.fromkeys(wanted) if entry not in settled.granted_patterns]
    if not wanted:
        why = idle or "the request offers no pattern to grant"
        return f"nothing is remembered: {why}, so {settled.reply} counts as once"
    stands = f"a grant of {quoted(standing, None)} exists already" if standing else None
    told = "it was answered at the agent's own prompt, so it is kept for this session at most" if settled.told else None
    about_offer = _limits(request) if settled.edited_patterns is None else None
    return "; ".join(one for one in (told, stands, _bounded(settled), about_offer) if one) or None


def _bounded(settled: Settled) -> str | None:
    """Return a note on the bounds of the grants that an answer made."""
    bounds = settled.bounds
    if bounds is None or not settled.grants:
        return None
    ends = None if bounds.expires_in_ms is None else f"for {format_duration(bounds.expires_in_ms)}"
    uses = None if bounds.uses is None else f"for {bounds.uses} more call{'s' if bounds.uses > 1 else ''}"
    return f"it is remembered {' and '.join(one for one in (ends, uses) if one)}"


def _idle(request: Request) -> str | None:
    """Return a note on entries, offered or left out, whose grant the profile would not accept."""
    if not request.not_honoured:
        return None
    return f"a grant of {quoted(request.not_honoured, None)} would lift nothing of this call in profile hardened"


def words_json(request: Request) -> dict[str, Any]:
    """Return `would_run`, the call in words on one line, and `names_tool` if it begins with the permission's name."""
    found = would_run(request)
    named = {"names_tool": True} if found.names_tool == request.permission else {}
    return {"would_run": found.in_words(), **named}


def _effect_json(evaluation: Evaluation | None) -> dict[str, Any]:
    recorded = evaluation is not None and evaluation.effect is not None
    return {"effect": counted_effect(evaluation)} if recorded else {}


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A pending request for display; `is_replay` if it was asked before the client connected."""

    session: str
    request: Request
    is_replay: bool = False

    def as_row(self) -> dict[str, Any]:
        """Return what a line of a list shows, and the digest that an answer is bound to; no input."""
        request = self.request
        return {
            "session": self.session,
            "request_id": request.request_id,
            "permission": request.permission,
            "tool": msgspec.to_builtins(request.tool),
            "asked_at": format_time(request.asked_ms),
            "deadline": None if request.deadline_ms is None else format_time(request.deadline_ms),
            "tier": request.tier,
            "digest": shown_digest(request),
            "agent": request.agent,
            "parent": request.parent,
            "tool_name": request.tool_name,
            "cwd": request.cwd,
            "by": request.asker.name,
            "version": request.version,
            **_effect_json(request.evaluation),
            **words_json(request),
            **({"redacted": True} if request.redacted else {}),
            **({} if request.owner is None else {"owner": request.owner}),
            **({} if request.round == 1 else {"round": request.round, "reopened": request.reopened_reason}),
            **_approvals_json(request),
            **_extendable_json(request),
        }

    def as_json(self) -> dict[str, Any]:
        """Return the object of CONTRACT's `pending` row, and the request's other fields."""
        request = self.request
        return {
            **dict.fromkeys(("session", "request_id", "permission")),  # the order of CONTRACT's row
            "patterns": list(request.patterns),
            "always": list(request.always),
            "metadata": request.metadata,
            **self.as_row(),
            "input": request.input,
            "evaluation": msgspec.to_builtins(request.evaluation),
            "is_replay": self.is_replay,
            **({"demands": msgspec.to_builtins(request.demands)} if request.demands else {}),
            **({"not_honoured": list(request.not_honoured)} if request.not_honoured else {}),
            **({"still_asked": list(request.still_asked)} if request.still_asked else {}),
            **({"offers": [_offer_json(one) for one in request.offers]} if request.offers else {}),
            **({"operands": msgspec.to_builtins(request.operands)} if request.operands else {}),
        }

    def described(self, description: Any = None) -> dict[str, Any]:
        """Return the same object with `description` and `demanded` for display, which views do not store.

        `description` is a cached one of the same request.
        """
        from ledger.session.would_run.description import description_json  # noqa: PLC0415 - it reads shell lines

        sentences = demanded(self.request)
        return {
            **self.as_json(),
            "description": description_json(self.request) if description is None else description,
            **({"demanded": list(sentences)} if sentences else {}),
        }


def _extendable_json(request: Request) -> dict[str, Any]:
    """Return the times to which an attended request can be extended, and until which its asker said that it waits."""
    latest_ms = latest_deadline_ms(request)
    members: dict[str, Any] = {} if latest_ms is None else {"latest_deadline": format_time(latest_ms)}
    if request.waits_until_ms is not None:
        members["waits_until"] = format_time(request.waits_until_ms)
    return members


def with_own_input(result: Result, own: Any) -> Result:
    """Return a result for its asker: a changed input with the asker's own texts in place of masked secrets.

    Raises InputError for a masked secret that is not in the asker's input.
    """
    if result.settled is None or result.settled.updated_input is None or not holds_mask(result.updated_input):
        return result
    settled = replace(result.settled, updated_input=with_own_texts(result.updated_input, own))
    return replace(result, settled=settled)


def pending_of(state: SessionState, limit: int | None = None, *, is_replay: bool = False) -> list[Pending]:
    """Return the first `limit` pending requests of a session (None: all), in order of asking."""
    requests = in_order(state.pending.values())[:limit]
    return [Pending(session=state.session_id, request=request, is_replay=is_replay) for request in requests]


class Approved(msgspec.Struct, frozen=True, kw_only=True):
    """A grant in force, with its session or its project."""

    grant: StandingGrant
    session: str | None
    project: str | None
    known_last_use_ms: int | None = None
    """The last use (server ms) as the caller knows it; that of a grant with a limit is in the grant itself."""

    @property
    def last_used_ms(self) -> int | None:
        """Return the server time of the last call that the grant is known to have lifted; None if it is not known."""
        return max((use.ms for use in self.grant.taken), default=self.known_last_use_ms)

    def as_json(self) -> dict[str, Any]:
        """Return the object of CONTRACT's `approved` row."""
        grant = self.grant
        return {
            "grant_id": grant.grant_id,
            "scope": grant.scope,
            "session": self.session,
            "project": self.project,
            "permission": grant.permission,
            "pattern": grant.pattern,
            "action": "allow",
            "by": grant.by.name,
            "at": format_time(grant.at_ms),
            "expires_at": None if grant.expires_ms is None else format_time(grant.expires_ms),
            "request_id": grant.request_id,
            "reason": grant.reason,
            "uses": grant.uses,
            "uses_left": grant.uses_left,
            "last_used_at": None if self.last_used_ms is None else format_time(self.last_used_ms),
            **({"wider": True} if grant.wider else {}),
            **({"imported": True} if grant.imported else {}),
            **({"told": True} if grant.by.via == TOLD else {}),
        }


def approved_in_session(state: SessionState, now_ms: int) -> list[Approved]:
    """Return the session's own grants in force; none once it is closed, because nothing is asked in it any more."""
    grants = [] if state.closed_ms is not None else list(in_force(state.grants, now_ms))
    used = last_uses(state) if grants else {}
    return [
        Approved(
            grant=grant, session=state.session_id, project=state.project, known_last_use_ms=used.get(grant.grant_id)
        )
        for grant in grants
    ]


def approved_in_project(state: ProjectState, now_ms: int) -> list[Approved]:
    """Return the project's grants in force, each with the session where it was made."""
    grants = in_force(state.grants, now_ms)
    return [Approved(grant=grant, session=grant.session, project=state.project_id) for grant in grants]


def _offer_json(offer: Offer) -> dict[str, Any]:
    built = {"reach": offer.reach, **msgspec.to_builtins(offer)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in built.items()}
