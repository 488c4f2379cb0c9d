"""Audit of a stream's answers, grants and passkeys against known passkeys. Pure.

The chain proves that history was not edited, but not who wrote it. Passkey signatures prove the author, because a
writer on the server has no such key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from ledger.access.passkey_checks import (
    Known,
    why_agreement_unproven,
    why_enrolment_unproven,
    why_grant_unproven,
    why_unproven,
)
from ledger.access.passkeys import PASSKEYS_ID, Passkey, PasskeysState, enrolment_of, evolve_passkeys, removal_of
from ledger.core import codec
from ledger.core.errors import DamageError
from ledger.core.event_shapes import Proof
from ledger.core.events import (
    Agreed,
    Asked,
    GrantBounds,
    Granted,
    GrantedDetail,
    PasskeyRegistered,
    PasskeyRemoved,
    Replied,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Call, Demand, DemandRule, Verdict
from ledger.log.verify import Problem
from ledger.policy.demands import demands_met
from ledger.session.approvals import agreement_of, why_too_few
from ledger.session.brief import fill_in
from ledger.session.evolve import evolve
from ledger.session.state import SessionState, Settled, call_of
from ledger.stores.port import Entry, StreamKey

PASSKEYS = StreamKey("access", PASSKEYS_ID)

Demands: TypeAlias = tuple[DemandRule, ...]

NO_DEMANDS: Final[Mapping[str, Demands]] = {}


class Anchors(NamedTuple):
    """The passkeys to check against; `kept` are those of a list kept elsewhere, None where the log's own count."""

    known: Known
    kept: Known | None = None


def anchors_of(recorded: Iterable[Recorded], kept: Known | None) -> Anchors:
    """Return the anchors of the stream of passkeys.

    With a `kept` list, only its passkeys count, and those whose registration one of them signed.
    """
    state, trusted = PasskeysState(), dict(kept or {})
    for one in recorded:
        state = evolve_passkeys(state, one)
        event = one.event
        if kept is None or not isinstance(event, PasskeyRegistered) or event.proof is None:
            continue
        if event.credential_id not in trusted and _why_unconsented(event, event.proof, trusted) is None:
            trusted[event.credential_id] = state.passkeys[event.credential_id]
    if kept is None:
        return Anchors(dict(state.passkeys.items()))
    return Anchors({key: _as_of_now(one, state) for key, one in trusted.items()}, kept)


def _as_of_now(passkey: Passkey, state: PasskeysState) -> Passkey:
    """Return a kept passkey with its removal from the log; person and key stay those of the list."""
    found = state.passkeys.get(passkey.credential_id)
    return passkey if found is None else replace(passkey, removed_ms=found.removed_ms)


def readable(entries: Iterable[Entry]) -> Iterator[Recorded]:
    """Iterate over the entries that decode as events; the chain's check reports the others."""
    for entry in entries:
        try:
            envelope = codec.decode(entry.payload, entry.content)
        except DamageError:
            continue
        redacted = codec.is_redacted(envelope, entry.content)
        yield Recorded(envelope.event, envelope.actor, entry.ms, entry.version, envelope.id, redacted)


def unproven(
    key: StreamKey, recorded: Iterable[Recorded], anchors: Anchors, demands: Mapping[str, Demands] = NO_DEMANDS
) -> list[Problem]:
    """Return the answers, grants and registrations of a stream without a valid signature of a known passkey.

    `demands` are those of the rules that the session names, by digest.
    """
    if key.kind == "session":
        found = _of_session(key, recorded, anchors.known, demands)
    elif key == PASSKEYS:
        found = _of_passkeys(recorded, anchors)
    else:
        found = _of_grants(recorded, anchors.known)
    return [Problem(version, "unproven", f"version {version}: {text}") for version, text in found]


def _of_session(
    key: StreamKey, recorded: Iterable[Recorded], known: Known, demands: Mapping[str, Demands]
) -> Iterator[tuple[int, str]]:
    state, nonces = SessionState(session_id=key.id), dict[str, int]()
    for one in recorded:
        fill_in(one.event, state)
        before, state = state, evolve(state, one)
        event = one.event
        if isinstance(event, Asked) and _lacks_demands(before, event, demands):
            yield one.version, f"request `{event.request_id}` was recorded without the demands of its rules"
        if isinstance(event, Granted):
            yield from _of_grants([one], known)
        if isinstance(event, Agreed):
            yield from _of_agreed(before, state, one, known, nonces)
        if not isinstance(event, Replied) and not (isinstance(event, Asked) and event.verdict is Verdict.ALLOW):
            continue
        settled = state.settled.get(event.request_id)
        if settled is None or settled.version != one.version:
            continue
        why = why_unproven(before, settled, known) or why_too_few(settled, _demands_of(before, settled, demands))
        if why is not None:
            yield one.version, f"request `{event.request_id}` was {settled.outcome}, and {why}"
        if isinstance(event, Replied) and event.proof is not None:
            yield from _used_again(one, event.proof, nonces)


def _of_agreed(
    before: SessionState, after: SessionState, one: Recorded, known: Known, nonces: dict[str, int]
) -> Iterator[tuple[int, str]]:
    """Yield the problems of one of several yeses; one that the fold does not take counts for nothing."""
    event = one.event
    assert isinstance(event, Agreed)
    request = after.pending.get(event.request_id)
    given = None if request is None else agreement_of(request, one.actor)
    if request is None or given is None or given.version != one.version:
        return
    why = why_agreement_unproven(before, request, given, known)
    if why is not None:
        yield one.version, f"`{one.actor.name}` approved request `{event.request_id}`, and {why}"
    if event.proof is not None:
        yield from _used_again(one, event.proof, nonces)


def _used_again(one: Recorded, proof: Proof, nonces: dict[str, int]) -> Iterator[tuple[int, str]]:
    first = nonces.setdefault(proof.claims.nonce, one.version)
    if first != one.version:
        yield one.version, f"the signature of version {first} was used again"


def _demands_of(state: SessionState, settled: Settled, rules: Mapping[str, Demands]) -> tuple[Demand, ...]:
    """Return the demands on an answer: those recorded with the request, and those of the rules of its moment."""
    pending = state.pending.get(settled.request.request_id)
    if pending is None or pending.redacted or settled.cause is not None:
        return settled.request.demands
    return (*settled.request.demands, *demands_met(rules.get(state.policy_digest, ()), call_of(pending)))


def _lacks_demands(state: SessionState, event: Asked, demands: Mapping[str, Demands]) -> bool:
    """Return whether a request lacks demands of the rules of that moment, though a person or a grant answers it."""
    rules = demands.get(state.policy_digest, ())
    if not rules or state.rules_redacted or event.detail is None or not (event.verdict is Verdict.ASK or event.grants):
        return False
    detail = event.detail
    call = Call(event.permission, detail.patterns, event.tool_name, detail.input, detail.cwd)
    return not set(demands_met(rules, call)) <= set(event.demands)


def _of_grants(recorded: Iterable[Recorded], known: Known) -> Iterator[tuple[int, str]]:
    for one in recorded:
        event = one.event
        if not isinstance(event, Granted) or event.proof is None:
            continue
        why = why_grant_unproven(
            event.proof,
            detail=event.detail if event.detail or one.redacted else GrantedDetail(""),
            scope=event.scope,
            session=event.session,
            request_id=event.request_id,
            bounds=GrantBounds(event.expires_in_ms, event.uses),
            known=known,
        )
        if why is not None:
            yield one.version, f"grant `{event.grant_id}` claims a passkey, and {why}"


def _of_passkeys(recorded: Iterable[Recorded], anchors: Anchors) -> Iterator[tuple[int, str]]:
    state, nonces = PasskeysState(), dict[str, int]()
    for one in recorded:
        event = one.event
        if isinstance(event, PasskeyRegistered):
            yield from _of_registration(one.version, event, state, anchors)
        elif isinstance(event, PasskeyRemoved) and event.proof is not None:
            named = removal_of(event.proof.claims.person, event.credential_id)
            why = why_enrolment_unproven(event.proof, named, anchors.known)
            if why is not None:
                yield one.version, f"a passkey was removed, and {why}"
        if isinstance(event, (PasskeyRegistered, PasskeyRemoved)) and event.proof is not None:
            yield from _used_again(one, event.proof, nonces)
        state = evolve_passkeys(state, one)


def _of_registration(
    version: int, event: PasskeyRegistered, before: PasskeysState, anchors: Anchors
) -> Iterator[tuple[int, str]]:
    named = f"passkey `{event.credential_id}` of `{event.person}`"
    if event.credential_id in before.passkeys:
        yield version, f"{named} was registered before"
    elif event.proof is None:
        if before.of(event.person):
            yield version, f"{named} was registered without the consent of those that `{event.person}` had"
    else:
        why = _why_unconsented(event, event.proof, {**dict(before.passkeys.items()), **(anchors.kept or {})})
        if why is not None:
            yield version, f"{named} was registered, and {why}"
    if anchors.kept is not None and event.credential_id not in anchors.known:
        yield version, f"{named} is not in the saved list, and no passkey of that list consented to it"


def _why_unconsented(event: PasskeyRegistered, proof: Proof, known: Known) -> str | None:
    named = enrolment_of(event.person, event.credential_id, event.public_key)
    return why_enrolment_unproven(proof, named, known)
