"""The reason for a request, and the smallest grant that would have answered it, with what else that would let through.

Past requests are given by the caller, who knows where to find them; `past_calls` reads their calls from the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ledger.client.past_calls import PastGrounds, TriedOffer, asked_event, counted
from ledger.client.results import Pending
from ledger.core.errors import InputError, UnknownRequestError
from ledger.core.events import Actor
from ledger.core.policy import Call, Evaluation, Offer, Policy, PolicySource, Verdict
from ledger.policy.advice import Compile, advise
from ledger.policy.check_questions import JudgedCall
from ledger.policy.demands import asks_passkey
from ledger.policy.dialects import dialect_of
from ledger.policy.offers import offers
from ledger.session.demands import askers, binding
from ledger.session.past_reach import (
    Ground,
    PastRequests,
    Reached,
    can_be_judged,
    offered_grants,
    would_answer,
)
from ledger.session.state import Request, SessionState, call_of
from ledger.session.wanted import always_scope
from ledger.stores.port import Position, StreamKey

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger
    from ledger.client.session import Session


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
        raise UnknownRequestError(
            f"session `{state.session_id}` has no request `{request_id}`",
            request_id=request_id,
            session=state.session_id,
        )
    if request_id in state.pending:
        return _Asked(request, call_of(request), request.offers, request.always)
    key = StreamKey("session", state.session_id)
    event = await asked_event(ledger, key, Position(request.asked_ms, request.version))
    if event is None or event.detail is None:
        return _Asked(request, call_of(request), (), ())
    detail = event.detail
    call = Call(event.permission, detail.patterns, event.tool_name, detail.input, detail.cwd or state.cwd, event.agent)
    return _Asked(request, call, detail.offers, detail.always)


def _tried(ground: Ground, asked: _Asked, by: Actor, *, signed: bool) -> list[TriedOffer]:
    """Return the offered choices that would have answered the request, each tried now, the narrowest first."""
    if not can_be_judged(asked.call) or asked.request.redacted:
        return []
    found = []
    for offer in asked.offers or _offer_of(asked):
        grants = offered_grants(asked.call.permission, offer.entries, by, signed=signed, now_ms=ground.now_ms)
        if would_answer(ground, asked.call, asked.request.request_id, asked.asking, grants):
            found.append(TriedOffer(offer, grants))
    return found


def _offer_of(asked: _Asked) -> tuple[Offer, ...]:
    """Return the agent's own suggestion, for a request that has no offers."""
    return (Offer(asked.always, "all", True),) if asked.always else ()


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
            offer=one.offer,
            suggested=frozenset(one.offer.entries) not in own,
            smallest=at == smallest,
            reached=reached,
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
