"""The client of a deployment's passkeys: registration, removal, challenges, and proofs of answers."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from ledger.access.passkey_checks import (
    CHALLENGE_MS,
    Registered,
    belongs_to,
    check_proof,
    check_registration,
    why_signature_fails,
    why_unproven,
)
from ledger.access.passkeys import (
    Passkey,
    PasskeysState,
    RegisterPasskey,
    RemovePasskey,
    UsePasskey,
    enrolment_of,
    removal_of,
    standing,
)
from ledger.core.errors import DamageError, InputError, PasskeyRefusedError, UnknownRequestError
from ledger.core.event_shapes import AnswerClaims, Claims, EnrolmentClaims, Proof, Signed
from ledger.core.events import Actor
from ledger.core.requests import check_message, check_name
from ledger.log.stream import Stream
from ledger.session.approvals import why_too_few
from ledger.session.commands import GivenReply
from ledger.session.masking import masked_answer
from ledger.session.signed_claims import answer_claims, challenge_of, is_issued, issue
from ledger.session.state import SessionState
from ledger.stores.secrets import deployment_secret

if TYPE_CHECKING:
    from ledger.client.context import Context
    from ledger.client.results import Result

NONCE_BYTES: Final = 16

C = TypeVar("C", AnswerClaims, EnrolmentClaims)


class Challenge(NamedTuple):
    """The claims for a person to sign, and their passkeys that may sign them."""

    claims: Claims
    passkeys: list[Passkey]

    @property
    def bytes(self) -> bytes:
        return challenge_of(self.claims)


class PasskeyBook:
    """The passkeys of all people. Safe to use from many tasks at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stream: Stream[PasskeysState] = context.streams.passkeys()

    async def all(self) -> list[Passkey]:
        """Return all passkeys, removed ones included, in order of registration. Raises StoreError."""
        state = await self._stream.refresh()
        return sorted(state.passkeys.values(), key=lambda one: (one.at_ms, one.credential_id))

    async def of(self, person: str) -> list[Passkey]:
        """Return the valid passkeys of a person. Raises StoreError."""
        return (await self._stream.refresh()).of(person)

    async def answer_challenge(
        self, state: SessionState, request_id: str, given: GivenReply, *, person: str
    ) -> Challenge:
        """Return the challenge of an answer to a pending request. Raises UnknownRequestError."""
        request = state.pending.get(request_id)
        if request is None:
            raise UnknownRequestError(
                f"session `{state.session_id}` has no pending request `{request_id}`",
                request_id=request_id,
                session=state.session_id,
            )
        given = masked_answer(given, self._context.streams.masks)
        return await self._issued(answer_claims(state, request, given, person=person, **self._fresh()))

    async def enrolment_challenge(
        self,
        person: str,
        action: Literal["register", "remove"],
        credential_id: str | None = None,
        *,
        made: Registered | None = None,
    ) -> Challenge:
        """Return the challenge of a change of a person's passkeys.

        To register one takes two: the new passkey is made with the first, and a present one signs the second, which
        names what was `made`.
        """
        if made is not None:
            claims = enrolment_of(person, made.credential_id, made.public_key, **self._fresh())
        else:
            claims = EnrolmentClaims(person=person, action=action, credential_id=credential_id, **self._fresh())
        return await self._issued(claims)

    def _fresh(self) -> dict[str, Any]:
        until_ms = self._context.store.clock.now_ms() + CHALLENGE_MS
        return {"nonce": secrets.token_urlsafe(NONCE_BYTES), "until_ms": until_ms}

    async def _issued(self, claims: Claims) -> Challenge:
        secret = await deployment_secret(self._context.store)
        return Challenge(issue(claims, secret), await self.of(claims.person))

    async def prove(self, claims: Claims, signed: Signed) -> Proof:
        """Return the proof of a signature over these claims, and use up its challenge.

        Raises PasskeyRefusedError, UnknownPasskeyError, MissingExtraError, StoreError.
        """
        claims = replace(claims, nonce=signed.nonce, until_ms=signed.until_ms)
        await self._require_issued(claims)
        passkey = standing(await self._stream.refresh(), signed.assertion.credential_id)
        proof = Proof(
            claims=claims,
            assertion=signed.assertion,
            public_key=passkey.public_key,
            rp_id=signed.rp_id,
            origin=signed.origin,
        )
        why = why_signature_fails(proof, {passkey.credential_id: passkey})
        if why is not None:
            raise PasskeyRefusedError(f"the signature was not accepted: {why}")
        used = UsePasskey(
            actor=Actor("person", claims.person),
            credential_id=passkey.credential_id,
            nonce=claims.nonce,
            until_ms=claims.until_ms,
            sign_count=check_proof(proof),
        )
        await self._stream.submit(used)
        return proof

    async def _require_issued(self, claims: Claims) -> None:
        if not is_issued(claims, await deployment_secret(self._context.store)):
            raise PasskeyRefusedError(
                "the challenge is for another answer or passkey, or the request has changed since it was shown; sign again"
            )
        if claims.until_ms < self._context.store.clock.now_ms():
            raise PasskeyRefusedError("this challenge is too old; sign a new one")

    async def require_proven(self, state: SessionState, result: Result) -> None:
        """Raise DamageError for an allow without a signature that was demanded or claimed, or by too few people."""
        settled = result.settled
        if settled is None or not (settled.request.demands or settled.proof):
            return
        why, lacks = why_too_few(settled, settled.request.demands), "by too few people"
        if why is None:
            known = (await self._stream.refresh()).passkeys
            why, lacks = (
                why_unproven(state, settled, dict(known.items()), now=True),
                "without a valid passkey signature",
            )
        if why is not None:
            raise DamageError(
                f"request `{result.request_id}` is recorded as allowed {lacks}: {why}; run verify",
                request_id=result.request_id,
                session=result.session,
                agent="stop",
            )

    async def made(
        self, person: str, response: Any, *, nonce: str, until_ms: int, rp_id: str, origin: str
    ) -> Registered:
        """Return the passkey that an authenticator made for a challenge, before it is registered.

        Raises PasskeyRefusedError, InputError, MissingExtraError, StoreError.
        """
        if not belongs_to(origin, rp_id):
            raise InputError(f"`{origin}` cannot use passkeys of `{rp_id}`: a passkey needs https, or http://localhost")
        claims = EnrolmentClaims(person=person, action="register", nonce=nonce, until_ms=until_ms)
        await self._require_issued(claims)
        return check_registration(response, challenge_of(claims), rp_id=rp_id, origin=origin)

    async def register(
        self,
        person: str,
        name: str,
        response: Any,
        *,
        nonce: str,
        until_ms: int,
        rp_id: str,
        origin: str,
        consent: Signed | None = None,
        token_id: str | None = None,
        actor: Actor | str | None = None,
    ) -> Passkey:
        """Register a passkey from an authenticator's response.

        `consent` to this passkey is signed by one that the person has already. Raises PasskeyRequiredError without it,
        PasskeyRefusedError, InputError, MissingExtraError, StoreError.
        """
        found = await self.made(person, response, nonce=nonce, until_ms=until_ms, rp_id=rp_id, origin=origin)
        claims = enrolment_of(person, found.credential_id, found.public_key)
        proof = None if consent is None else await self.prove(claims, consent)
        command = RegisterPasskey(
            actor=self._context.actor(actor, "person"),
            person=check_name(person, "person"),
            name=check_name(name.strip(), "name of the passkey"),
            credential_id=found.credential_id,
            public_key=found.public_key,
            rp_id=rp_id,
            sign_count=found.sign_count,
            token_id=token_id,
            proof=proof,
        )
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        return done.state.passkeys[found.credential_id]

    async def remove(
        self,
        credential_id: str,
        *,
        consent: Signed | None = None,
        administrator: bool = False,
        reason: str | None = None,
        actor: Actor | str | None = None,
    ) -> Passkey:
        """Remove a passkey, with the consent of one of the person's or as an administrator of the ledger.

        Raises UnknownPasskeyError, PasskeyRequiredError, PasskeyRefusedError, StoreError.
        """
        passkey = standing(await self._stream.refresh(), credential_id)
        proof = None
        if consent is not None:
            proof = await self.prove(removal_of(passkey.person, credential_id), consent)
        command = RemovePasskey(
            actor=self._context.actor(actor, "person"),
            credential_id=credential_id,
            administrator=administrator,
            proof=proof,
            reason=check_message(reason, "reason"),
        )
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        return done.state.passkeys[credential_id]
