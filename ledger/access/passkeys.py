"""The stream of passkeys: those of each person, and used challenges. Pure.

One stream for a deployment, of the kind that is never exported (`access`), besides that of tokens.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.access_events import NameDetail
from ledger.core.codec import NewerEvent
from ledger.core.errors import (
    InputError,
    NewerSchemaError,
    PasskeyRefusedError,
    PasskeyRequiredError,
    UnknownPasskeyError,
)
from ledger.core.event_shapes import EnrolmentClaims, Proof, alike
from ledger.core.events import Actor, Event, PasskeyRegistered, PasskeyRemoved, PasskeyUsed, ReasonDetail, Value
from ledger.core.grants import Recorded
from ledger.core.times import format_time
from ledger.session.signed_claims import text_digest

PASSKEYS_ID = "passkeys"
"""The id of the stream."""

PASSKEYS_PER_PERSON_COUNT = 32


class Passkey(Value, kw_only=True, frozen=True):
    """A passkey in state; `removed_ms` is a server time, None while it is valid.

    `vouched` says that another passkey of the person consented to its registration.
    """

    credential_id: str
    person: str
    name: str
    public_key: str
    rp_id: str
    by: Actor
    at_ms: int
    sign_count: int = 0
    vouched: bool = False
    removed_ms: int | None = None
    used_ms: int | None = None


Passkeys: TypeAlias = "HashTrieMap[str, Passkey]"


class PasskeysState(Value, kw_only=True, frozen=True):
    """The fold of the stream. `nonces` are those of used challenges, with the time (ms) of their expiry."""

    version: int = 0
    last_ms: int = 0
    newer: bool = False
    passkeys: Passkeys = HashTrieMap()
    nonces: HashTrieMap[str, int] = HashTrieMap()

    def of(self, person: str) -> list[Passkey]:
        """Return the valid passkeys of a person, oldest first."""
        own = [one for one in self.passkeys.values() if one.person == person and one.removed_ms is None]
        return sorted(own, key=lambda one: (one.at_ms, one.credential_id))


class RegisterPasskey(Value, kw_only=True, frozen=True):
    """Register a passkey; for a person who already has one, `proof` is its verified consent."""

    actor: Actor
    person: str
    name: str
    credential_id: str
    public_key: str
    rp_id: str
    sign_count: int = 0
    token_id: str | None = None
    proof: Proof | None = None


class RemovePasskey(Value, kw_only=True, frozen=True):
    """Remove a passkey, with the consent of one of the person's or as an administrator."""

    actor: Actor
    credential_id: str
    administrator: bool = False
    proof: Proof | None = None
    reason: str | None = None


class UsePasskey(Value, kw_only=True, frozen=True):
    """Invalidate the challenge that a passkey signed."""

    actor: Actor
    credential_id: str
    nonce: str
    until_ms: int
    sign_count: int


PasskeyCommand = RegisterPasskey | RemovePasskey | UsePasskey


def decide_passkeys(state: PasskeysState, command: PasskeyCommand, now_ms: int) -> tuple[Event, ...]:
    """Return the events of a command.

    Raises PasskeyRequiredError, PasskeyRefusedError, UnknownPasskeyError, InputError.
    """
    if state.newer:
        raise NewerSchemaError("the passkey stream holds events of a newer version; upgrade this worker")
    match command:
        case RegisterPasskey():
            return _register(state, command)
        case RemovePasskey():
            return _remove(state, command)
        case UsePasskey():
            return _use(state, command, now_ms)


def standing(state: PasskeysState, credential_id: str) -> Passkey:
    """Return a valid passkey. Raises UnknownPasskeyError."""
    found = state.passkeys.get(credential_id)
    if found is None or found.removed_ms is not None:
        raise UnknownPasskeyError("this passkey is not registered here, or was removed", credential_id=credential_id)
    return found


def _register(state: PasskeysState, command: RegisterPasskey) -> tuple[Event, ...]:
    if command.credential_id in state.passkeys:
        raise InputError("this passkey was registered here before", credential_id=command.credential_id)
    own = state.of(command.person)
    if len(own) >= PASSKEYS_PER_PERSON_COUNT:
        raise InputError(f"`{command.person}` has {len(own)} passkeys, the maximum; remove one first")
    if own:
        _require_consent(command.proof, enrolment_of(command.person, command.credential_id, command.public_key))
    proof = command.proof if own else None
    return (alike(PasskeyRegistered, command, proof=proof, detail=NameDetail(command.name)),)


def _remove(state: PasskeysState, command: RemovePasskey) -> tuple[Event, ...]:
    passkey = standing(state, command.credential_id)
    if not command.administrator:
        _require_consent(command.proof, removal_of(passkey.person, passkey.credential_id))
    detail = ReasonDetail(command.reason) if command.reason else None
    return (PasskeyRemoved(credential_id=passkey.credential_id, proof=command.proof, detail=detail),)


def enrolment_of(
    person: str, credential_id: str, public_key: str, *, nonce: str = "", until_ms: int = 0
) -> EnrolmentClaims:
    """Return the claims of the consent to one more passkey, which name its id and its key."""
    return EnrolmentClaims(
        person=person,
        action="register",
        credential_id=credential_id,
        key_digest=text_digest(public_key),
        nonce=nonce,
        until_ms=until_ms,
    )


def removal_of(person: str, credential_id: str) -> EnrolmentClaims:
    """Return the claims of the consent to the removal of a passkey."""
    return EnrolmentClaims(person=person, action="remove", credential_id=credential_id, nonce="", until_ms=0)


def _require_consent(proof: Proof | None, named: EnrolmentClaims) -> None:
    if proof is None:
        raise PasskeyRequiredError(f"`{named.person}` has passkeys: one of them must consent to this change")
    if proof.claims != replace(named, nonce=proof.claims.nonce, until_ms=proof.claims.until_ms):
        raise PasskeyRefusedError("what the passkey signed is not this change of passkeys; sign again")


def _use(state: PasskeysState, command: UsePasskey, now_ms: int) -> tuple[Event, ...]:
    passkey = standing(state, command.credential_id)
    if command.nonce in state.nonces:
        raise PasskeyRefusedError("this signature was used before; sign again")
    if now_ms > command.until_ms:
        raise PasskeyRefusedError("this challenge is too old; sign a new one")
    if (command.sign_count or passkey.sign_count) and command.sign_count <= passkey.sign_count:
        raise PasskeyRefusedError(
            f"the counter of passkey `{passkey.name}` went back from {passkey.sign_count} to {command.sign_count}: "
            "it may have been copied; remove it"
        )
    return (alike(PasskeyUsed, command),)


def evolve_passkeys(state: PasskeysState, recorded: Recorded) -> PasskeysState:
    """Return the state after one more event."""
    event, passkeys, nonces = recorded.event, state.passkeys, state.nonces
    if isinstance(event, PasskeyRegistered) and event.credential_id not in passkeys:
        passkeys = passkeys.insert(event.credential_id, _registered(recorded, event))
    elif isinstance(event, PasskeyRemoved) and event.credential_id in passkeys:
        gone = replace(passkeys[event.credential_id], removed_ms=recorded.ms)
        passkeys = passkeys.insert(event.credential_id, gone)
    elif isinstance(event, PasskeyUsed) and event.credential_id in passkeys:
        used = replace(passkeys[event.credential_id], sign_count=event.sign_count, used_ms=recorded.ms)
        passkeys = passkeys.insert(event.credential_id, used)
        nonces = _without_void(nonces, recorded.ms).insert(event.nonce, event.until_ms)
    return replace(
        state,
        version=recorded.version,
        last_ms=recorded.ms,
        newer=state.newer or isinstance(event, NewerEvent),
        passkeys=passkeys,
        nonces=nonces,
    )


def _without_void(nonces: HashTrieMap[str, int], now_ms: int) -> HashTrieMap[str, int]:
    """Return the nonces without those of expired challenges."""
    for nonce in [nonce for nonce, until_ms in nonces.items() if until_ms < now_ms]:
        nonces = nonces.remove(nonce)
    return nonces


def _registered(recorded: Recorded, event: PasskeyRegistered) -> Passkey:
    name = event.detail.name if event.detail else None
    return alike(
        Passkey,
        event,
        name=name or event.credential_id,
        by=recorded.actor,
        at_ms=recorded.ms,
        vouched=event.proof is not None,
    )


def passkey_json(passkey: Passkey) -> dict[str, Any]:
    """Return one row of `passkey list`, which `verify --passkeys` also reads."""
    return {
        "credential_id": passkey.credential_id,
        "person": passkey.person,
        "name": passkey.name,
        "public_key": passkey.public_key,
        "rp_id": passkey.rp_id,
        "sign_count": passkey.sign_count,
        "vouched": passkey.vouched,
        "by": passkey.by.name,
        "at": format_time(passkey.at_ms),
        "used_at": None if passkey.used_ms is None else format_time(passkey.used_ms),
        "removed_at": None if passkey.removed_ms is None else format_time(passkey.removed_ms),
    }
