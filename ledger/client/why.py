"""The reason for a request, and the smallest grant that would have answered it, with what else that would let through.

Past requests are given by the caller, who knows where to find them; their calls are read from the log. Nothing is
approximated: a past call is judged by `ledger.session.judging.judge`, as an ask of now would be, with the grants in force
and with the offered ones beside them. It is judged by the rules, grants and files of now, because they decide about the
next such call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.client.lookups import asked_event
from ledger.client.results import Pending
from ledger.core.errors import InputError, LedgerError, StoreError
from ledger.core.events import Actor, Asked, AskedDetail, Outcome
from ledger.core.grants import Grants, StandingGrant
from ledger.core.policy import Call, Evaluation, Offer, Policy, PolicySource, Verdict
from ledger.core.standing import Standing, kept
from ledger.log.surveys import survey
from ledger.masks.own_input import holds_mask
from ledger.policy.check_questions import JudgedCall
from ledger.policy.demands import asks_passkey, demands_on
from ledger.policy.dialects import dialect_of
from ledger.policy.offers import Compile, advise, offers
from ledger.project import ProjectState
from ledger.session.approvals import askers, binding, that_count
from ledger.session.decision import unknown_request
from ledger.session.judging import judge
from ledger.session.signed_claims import always_scope
from ledger.session.state import Request, SessionState, call_of
from ledger.session.would_run import LINE_CHARS, describe_asked
from ledger.stores.port import Position, StreamKey

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger
    from ledger.client.session import Session


EXAMPLES_COUNT: Final = 5
"""Distinct past calls, at most, that are named for one choice."""


class PastRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waited for a person. `outcome` None: it is pending; `by` is the person who answered."""

    session: str
    request_id: str
    version: int
    asked_ms: int
    outcome: Outcome | None = None
    by: str | None = None

    @property
    def is_rejected(self) -> bool:
        """Return whether a person said no."""
        return self.outcome in ("rejected", "corrected")


class PastRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Past requests, the newest first. `is_cut`: there are more since `since_ms` (server ms) than were looked at.

    `source` is where they were found: an index of requests, or the log itself.
    """

    found: tuple[PastRequest, ...]
    source: Literal["index", "log"]
    since_ms: int
    is_cut: bool = False


class PastCall(NamedTuple):
    """A past request with its call, its asker and its description in one line."""

    request: PastRequest
    call: Call
    asking: tuple[str, ...]
    line: str


class Ground(NamedTuple):
    """The inputs of a judgement in one session as of now (server ms)."""

    state: SessionState
    project: ProjectState | None
    policy: Policy
    now_ms: int


class TriedOffer(NamedTuple):
    """A choice, and the grants that an answer with it could make. `signed`: a passkey would sign that answer."""

    offer: Offer
    grants: Grants
    signed: bool


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """The past requests that a choice would have answered: their number, and distinct examples, rejected ones first."""

    answered: int = 0
    here: int = 0
    """Those of the same session."""
    rejected: int = 0
    examples: tuple[PastCall, ...] = ()


def can_be_judged(call: Call) -> bool:
    """Return whether the log has the call as it was; a masked secret is not what would have run."""
    return not holds_mask((call.patterns, call.input))


def would_answer(
    ground: Ground, call: Call, request_id: str, asking: tuple[str, ...], tried: TriedOffer | None = None
) -> bool:
    """Return whether a call would be allowed without a person: by rules and grants of now, and with those of a choice."""
    state, project = ground.state, ground.project
    streams = (
        state.grants,
        *(() if project is None else (project.grants,)),
        *(() if tried is None else (tried.grants,)),
    )
    standing: Sequence[StandingGrant] = Standing(streams, ground.now_ms)
    demands = demands_on(ground.policy, call)
    if demands:
        # A grant of the choice would bear the signature of its answer.
        signed = tried.grants if tried is not None and tried.signed else {}
        unsigned = tuple(replace(one, answer_by=None) for one in demands)
        standing = kept(
            standing,
            lambda grant: bool(that_count((grant,), unsigned if grant.grant_id in signed else demands, asking)),
        )
    evaluation, _ = judge(state, ground.policy, call, request_id, standing)
    return evaluation.verdict is Verdict.ALLOW


def _reached(session: str, answered: Sequence[PastCall]) -> Reached:
    """Return the count of one choice over the past calls that it would have answered, the newest first."""
    examples: dict[str, PastCall] = {}
    for past in answered:
        known = examples.get(past.line)
        if known is None or (past.request.is_rejected and not known.request.is_rejected):
            examples[past.line] = past
    found = sorted(examples.values(), key=lambda past: not past.request.is_rejected)
    return Reached(
        answered=len(answered),
        here=sum(past.request.session == session for past in answered),
        rejected=sum(past.request.is_rejected for past in answered),
        examples=tuple(found[:EXAMPLES_COUNT]),
    )


JUDGING_SECONDS: Final = 2.0
"""Processor time for judging past calls; those left then are not counted, and the answer says that it was cut."""

WAITING_SECONDS: Final = 10.0
"""Time for all of it, with the reads and the turns of others; the page waits for 15 s."""

READ_AT_ONCE_COUNT: Final = 64


class PastGrounds:
    """The inputs of judgements as of now, read once for each session and project."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._now_ms = ledger.store.clock.now_ms()
        self._projects: dict[str, ProjectState] = {}
        self.states: dict[str, Ground | None] = {}

    async def of(self, state: SessionState) -> Ground:
        """Return the ground of a session. Raises RulesUnreadableError, StoreError."""
        policies = self._ledger.policies
        policy = policies.known(state) or policies.of(state, await self._ledger.streams.rulesets.of(state))
        return Ground(state, await self._project(state.project), policy, self._now_ms)

    async def _project(self, project: str | None) -> ProjectState | None:
        if project is None:
            return None
        if project not in self._projects:
            self._projects[project] = await self._ledger.streams.project(project).refresh()
        return self._projects[project]

    async def read(self, sessions: Iterable[str]) -> None:
        """Read sessions into `states`; None for one that cannot be judged."""
        streams = self._ledger.streams
        keys = [StreamKey("session", one) for one in dict.fromkeys(sessions)]
        found = await survey(keys, lambda key: streams.session(key.id).refresh())
        for state in found.rows:
            self.states[state.session_id] = await self._ground(state)

    async def _ground(self, state: SessionState) -> Ground | None:
        if state.newer or state.rules_redacted:
            return None
        try:
            return await self.of(state)
        except StoreError:
            raise
        except LedgerError:
            return None


async def counted(
    ledger: Ledger, grounds: PastGrounds, session: str, tried: Sequence[TriedOffer], past: Sequence[PastRequest]
) -> tuple[list[Reached], int, bool]:
    """Return what each choice would have answered, the number of requests that cannot be judged, and whether it was cut."""
    answered: list[list[PastCall]] = [[] for _ in tried]
    if not tried:
        return [], 0, False
    await grounds.read(one.session for one in past)
    loop = asyncio.get_running_loop()
    until, judged_seconds, unknown = loop.time() + WAITING_SECONDS, 0.0, 0
    for start in range(0, len(past), READ_AT_ONCE_COUNT):
        some = past[start : start + READ_AT_ONCE_COUNT]
        calls = await asyncio.gather(*(_past_call(ledger, grounds, one) for one in some))
        for one in calls:
            if one is None:
                unknown += 1
                continue
            if judged_seconds > JUDGING_SECONDS or loop.time() > until:
                return [_reached(session, one) for one in answered], unknown, True
            began = time.thread_time()
            _count(grounds, one, tried, answered)
            judged_seconds += time.thread_time() - began
            await asyncio.sleep(0)
    return [_reached(session, one) for one in answered], unknown, False


async def _past_call(ledger: Ledger, grounds: PastGrounds, past: PastRequest) -> PastCall | None:
    """Return a past request with its call; None where it cannot be judged."""
    ground = grounds.states.get(past.session)
    if ground is None:
        return None
    event = await asked_event(ledger.store, StreamKey("session", past.session), Position(past.asked_ms, past.version))
    if event is None or event.detail is None or event.request_id != past.request_id:
        return None
    found, detail = ground.state.find(past.request_id), event.detail
    call = _call_in(ground.state, event, detail)
    if found is None or found.redacted or not can_be_judged(call):
        return None
    asking = askers(found.asker, event.owner)
    return PastCall(_as_of_now(ground.state, past), call, asking, describe_asked(event).in_words(LINE_CHARS))


def _as_of_now(state: SessionState, past: PastRequest) -> PastRequest:
    """Return a past request with the outcome that its session tells: an index may lag."""
    settled = state.settled.get(past.request_id)
    if settled is None:
        return replace(past, outcome=None, by=None)
    by = settled.by.name if settled.reply is not None and settled.cause is None else None
    return replace(past, outcome=settled.outcome, by=by)


def _count(
    grounds: PastGrounds, past: PastCall, tried: Sequence[TriedOffer], answered: Sequence[list[PastCall]]
) -> None:
    """Add a past call to each choice that would have answered it, unless rules or grants of now do so anyway."""
    ground = grounds.states[past.request.session]
    assert ground is not None, "the call was read with it"
    request_id = past.request.request_id
    wanted = [
        calls
        for one, calls in zip(tried, answered, strict=True)
        if would_answer(ground, past.call, request_id, past.asking, one)
    ]
    if wanted and not would_answer(ground, past.call, request_id, past.asking):
        for calls in wanted:
            calls.append(past)


class GrantChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A grant that would have answered the request, with what else it would have answered.

    `suggested`: the agent named its entries. `smallest`: no other choice is smaller, and it is not wide.
    """

    offer: Offer
    suggested: bool
    smallest: bool
    reached: Reached


class WhyAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one request. `refused` is the reason for which no grant would have answered it.

    `looked_at` past requests waited for a person; `unknown` of them cannot be judged: their content is not in the log
    as it was, or their session cannot be read.
    """

    pending: Pending
    project: str | None
    dialect: str
    scope: str
    evaluation: Evaluation | None
    choices: tuple[GrantChoice, ...]
    refused: str | None
    past: PastRequests
    looked_at: int
    unknown: int
    is_cut: bool
    call: Call
    source: PolicySource


class Answerer(NamedTuple):
    """The person who would make a grant; a role of None is unknown."""

    actor: Actor
    role: str | None = None


class _Asked(msgspec.Struct, frozen=True):
    """A request with the call as it was asked, also after it was settled."""

    request: Request
    call: Call
    offers: tuple[Offer, ...]
    always: tuple[str, ...]

    @property
    def asking(self) -> tuple[str, ...]:
        return askers(self.request.asker, self.request.owner)


async def explain_request(
    ledger: Ledger, session: Session, request_id: str, past: PastRequests, by: Answerer
) -> WhyAsked:
    """Return the reason for a request, and the grants that would have answered it if `by` had made them before.

    Raises UnknownRequestError, RulesUnreadableError, StoreError.
    """
    state = await session.state()
    asked = await _asked(ledger, state, request_id)
    grounds = PastGrounds(ledger)
    ground = await grounds.of(state)
    signed = asks_passkey(binding(ground.policy, asked.request), "always", by.role)
    tried = _tried(ground, asked, by.actor, signed=signed)
    others = [one for one in past.found if (one.session, one.request_id) != (session.id, request_id)]
    counts, unknown, is_cut = await counted(ledger, grounds, session.id, tried, others)
    own = _own_entries(ground.policy, asked)
    choices = _choices(tried, counts, own)
    evaluation = asked.request.evaluation
    return WhyAsked(
        pending=Pending(session=session.id, request=asked.request),
        project=state.project,
        dialect=ground.policy.source.dialect,
        scope="session" if state.project is None else always_scope(state),
        evaluation=evaluation,
        choices=choices,
        refused=None if choices else _refusal(ground, asked, by.actor),
        past=past,
        looked_at=len(others),
        unknown=unknown,
        is_cut=past.is_cut or is_cut,
        call=asked.call,
        source=dialect_of(ground.policy.source).of_agent(ground.policy.source, asked.call.agent),
    )


async def _asked(ledger: Ledger, state: SessionState, request_id: str) -> _Asked:
    request = state.find(request_id)
    if request is None:
        raise unknown_request(state, request_id)
    if request_id in state.pending:
        return _Asked(request, call_of(request), request.offers, request.always)
    key = StreamKey("session", state.session_id)
    event = await asked_event(ledger.store, key, Position(request.asked_ms, request.version))
    if event is None or event.detail is None:
        return _Asked(request, call_of(request), (), ())
    detail = event.detail
    return _Asked(request, _call_in(state, event, detail), detail.offers, detail.always)


def _call_in(state: SessionState, event: Asked, detail: AskedDetail) -> Call:
    return Call(event.permission, detail.patterns, event.tool_name, detail.input, detail.cwd or state.cwd, event.agent)


def _tried(ground: Ground, asked: _Asked, by: Actor, *, signed: bool) -> list[TriedOffer]:
    """Return the offered choices that would have answered the request, each tried now, the narrowest first."""
    if not can_be_judged(asked.call) or asked.request.redacted:
        return []
    # Without offers it is the agent's own suggestion.
    offers_made = asked.offers or ((Offer(asked.always, "all", True),) if asked.always else ())
    tried = [TriedOffer(one, _granted(asked.call, one, by, ground.now_ms), signed) for one in offers_made]
    return [one for one in tried if would_answer(ground, asked.call, asked.request.request_id, asked.asking, one)]


def _granted(call: Call, offer: Offer, by: Actor, now_ms: int) -> Grants:
    """Return the grants of an answer with this choice by this person."""
    return Grants.of(
        StandingGrant(
            grant_id=f"offered {number}",
            permission=call.permission,
            pattern=entry,
            scope="session",
            by=by,
            at_ms=now_ms,
            version=number,
        )
        for number, entry in enumerate(offer.entries)
    )


def _own_entries(policy: Policy, asked: _Asked) -> set[frozenset[str]]:
    """Return the entries of the choices that the rules' dialect offers by itself, without what the agent named."""
    evaluation = policy.evaluate(asked.call)
    if evaluation.verdict is not Verdict.ASK:
        return {frozenset(one.entries) for one in asked.offers if one.reach == "exact"}
    return {frozenset(one.entries) for one in offers(policy, asked.call, evaluation)}


def _choices(
    tried: Sequence[TriedOffer], counts: Sequence[Reached], own: set[frozenset[str]]
) -> tuple[GrantChoice, ...]:
    smallest = next(
        (at for at, one in enumerate(tried) if not one.offer.wide and frozenset(one.offer.entries) in own), None
    )
    return tuple(
        GrantChoice(
            offer=one.offer, suggested=frozenset(one.offer.entries) not in own, smallest=at == smallest, reached=reached
        )
        for at, (one, reached) in enumerate(zip(tried, counts, strict=True))
    )


def _refusal(ground: Ground, asked: _Asked, by: Actor) -> str:
    """Return the reason for which no grant would have answered a request."""
    if asked.request.redacted:
        return "its content is not in the log any more"
    if not can_be_judged(asked.call):
        return "it holds a masked secret, so that the rules cannot judge what would run"
    is_asker = by.name.casefold() in {one.casefold() for one in asked.asking}
    if is_asker and any(one.not_by == "asker" for one in binding(ground.policy, asked.request)):
        return "a rule says that its asker does not answer it, so a grant of yours would not count for it"
    if asked.offers:
        still = [text for one in asked.offers for text in one.still_asked]
        return "; ".join(dict.fromkeys(still)) or "the offered grants would lift nothing of it by the rules of now"
    return "no grant is offered for such a call"


def advice_asked(why: WhyAsked) -> dict[str, Any] | None:
    """Return the question for the smallest rule, as plain values for another process; None where a grant is refused."""
    if why.refused is not None:
        return None
    return {
        "policy": msgspec.to_builtins(why.source),
        "permission": why.call.permission,
        "patterns": list(why.call.patterns),
        "tool": why.call.tool_name,
        "input": why.call.input,
        "cwd": why.call.cwd,
    }


def smallest_rule(asked: Mapping[str, Any], compile_again: Compile) -> dict[str, Any] | None:
    """Answer such a question: the rule in its dialect with its place in words, and what else it was seen to allow.

    It was tried, and allows the call. None where no rule for exactly the call, or its kind, does. Raises PolicyError, InputError.
    """
    try:
        source = msgspec.convert(asked["policy"], PolicySource)
    except msgspec.ValidationError as error:
        raise InputError(f"the policy is not of the form `{{dialect, layers, options}}`: {error}") from error
    policy = compile_again(source)
    call = Call(asked["permission"], tuple(asked["patterns"]), asked["tool"], asked["input"], asked["cwd"])
    found = advise(policy, call, JudgedCall(policy, call), compile_again)
    fix = next((one for one in found if one.verdict is Verdict.ALLOW and one.config is not None), None)
    if fix is None:
        return None
    return {"text": fix.text, "config": fix.config, "lets_through": list(fix.lets_through)}
