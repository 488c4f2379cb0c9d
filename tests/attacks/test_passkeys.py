"""Attacks on answers that a passkey must sign, by others than its person."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import msgspec
import pytest
from msgspec.structs import replace
from webauthn import base64url_to_bytes

from ledger import DamageError, InputError, Ledger, LedgerError, Session
from ledger.client.passkey_audit import PASSKEYS, anchors_of, readable
from ledger.client.passkeys import Challenge
from ledger.core.errors import PasskeyRefusedError, PasskeyRequiredError, UnknownPasskeyError
from ledger.core.event_shapes import Proof, Signed
from ledger.core.events import GrantBounds, PasskeyRegistered
from ledger.core.policy import Evaluation, ReplyKind, Verdict
from ledger.core.questions import Question
from ledger.policy.errors import PolicyError
from ledger.session.commands import GivenReply
from ledger.session.decision import shown_digest
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.support.authenticator import ORIGIN, RP_ID, Authenticator
from tests.support.forging import append_forged, person
from tests.support.servers import RealServer
from workers.gateway.names import passkey_origins
from workers.upkeep.stream_checks import Depth, StreamChecker, check_stream, read_anchors

ANN: Final = "ann"
ASK: Final = [{"permission": "*", "pattern": "*", "action": "ask"}]
EVERY_ANSWER: Final = [{"answer_by": "passkey"}]
ALWAYS: Final = [{"answer_by": "passkey", "replies": ["always"]}]


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        yield ledger


async def enrolled(ledger: Ledger, person: str = ANN, **traits: Any) -> Authenticator:
    """Enroll a person's first passkey."""
    authenticator = Authenticator(**traits)
    challenge = await ledger.passkeys.enrolment_challenge(person, "register")
    await ledger.passkeys.register(
        person, "key ring", authenticator.create(challenge.bytes), **at(authenticator, challenge)
    )
    return authenticator


async def made(ledger: Ledger, authenticator: Authenticator | None = None) -> dict[str, Any]:
    """Return what registers a passkey of Ann's that was made just now, without a consent."""
    new = authenticator or Authenticator()
    challenge = await ledger.passkeys.enrolment_challenge(ANN, "register")
    return {"response": new.create(challenge.bytes), **at(new, challenge)}


async def consent_to(ledger: Ledger, new: dict[str, Any]) -> Challenge:
    """Return what another passkey of Ann's signs to register a new one."""
    return await ledger.passkeys.enrolment_challenge(ANN, "register", made=await ledger.passkeys.made(ANN, **new))


def at(authenticator: Authenticator, challenge: Challenge) -> dict[str, Any]:
    claims = challenge.claims
    return {
        "nonce": claims.nonce,
        "until_ms": claims.until_ms,
        "rp_id": authenticator.rp_id,
        "origin": authenticator.origin,
    }


async def demanding(ledger: Ledger, demands: Any = EVERY_ANSWER, session: str = "ses_1", **more: Any) -> Session:
    return await ledger.session(session, project="shop", rules=ASK, demands=demands, **more)


async def asked(session: Session, request_id: str = "r1", *patterns: str, **more: Any) -> None:
    result = await session.submit(
        "bash", patterns or ("git push",), request_id=request_id, always=["git push *"], **more
    )
    assert result.outcome is None


async def challenge_for(session: Session, ledger: Ledger, request_id: str, reply: Any, **more: Any) -> Challenge:
    return await ledger.passkeys.answer_challenge(
        await session.state(), request_id, GivenReply(reply=reply, **more), person=ANN
    )


async def signed_answer(
    session: Session, ledger: Ledger, key: Authenticator, reply: Any = "once", request_id: str = "r1"
) -> Signed:
    return key.sign(await challenge_for(session, ledger, request_id, reply))


async def refused(awaitable: Any, kind: type[LedgerError] = PasskeyRefusedError) -> str:
    with pytest.raises(kind) as caught:
        await awaitable
    return str(caught.value.text)


async def waits(session: Session, request_id: str = "r1") -> bool:
    return (await session.result(request_id)).outcome is None


# --- without a passkey ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", ["once", "session", "always", "reject"])
async def test_answering_without_the_passkey(ledger: Ledger, reply: Any) -> None:
    session = await demanding(ledger)
    await asked(session)
    text = await refused(session.reply("r1", reply, actor=ANN), PasskeyRequiredError)
    assert "signed with a passkey" in text
    assert await waits(session)


async def test_an_answer_that_is_signed_counts_and_keeps_its_proof(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    signed = await signed_answer(session, ledger, key, "always")
    result = await session.reply("r1", "always", actor=ANN, signed=signed)
    assert (result.outcome, result.by.name) == ("allowed", ANN)
    replied = [one.event async for one in session.events(0, follow_on=False) if one.type == "replied"]
    assert replied[0].proof.assertion.credential_id == key.id  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "sent", [{}, {"uses": 2}, {"uses": 1, "expires_in_ms": 60_000}, {"uses": 1, "patterns": ["git push origin"]}]
)
async def test_making_a_wider_grant_of_a_signed_answer_with_bounds(ledger: Ledger, sent: dict[str, Any]) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    bounds = GrantBounds(uses=1)
    signed = key.sign(await challenge_for(session, ledger, "r1", "always", bounds=bounds))
    await refused(session.reply("r1", "always", actor=ANN, signed=signed, **sent))
    assert await waits(session)


async def test_a_signed_answer_with_bounds_makes_a_grant_that_its_passkey_proves(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    bounds, patterns = GrantBounds(3_600_000, 1), ("git push", "git push *")
    signed = key.sign(await challenge_for(session, ledger, "r1", "always", bounds=bounds, patterns=patterns))
    await session.reply("r1", "always", actor=ANN, signed=signed, uses=1, expires_in_ms=3_600_000, patterns=patterns)
    again = await session.submit("bash", ["git push"], request_id="r2")
    assert again.allowed
    anchors = await read_anchors(ledger.store, None)
    for key_of in (StreamKey("session", "ses_1"), StreamKey("project", "shop")):
        assert (await check_stream(ledger.store, key_of, anchors=anchors)).problems == []


async def test_answering_always_where_only_once_is_free(ledger: Ledger) -> None:
    session = await demanding(ledger, ALWAYS)
    await asked(session)
    await refused(session.reply("r1", "always", actor=ANN), PasskeyRequiredError)
    assert (await session.reply("r1", "once", actor=ANN)).allowed


async def test_a_grant_given_without_a_passkey_lifts_a_demanded_call(ledger: Ledger) -> None:
    open_to_grants = await ledger.session("ses_0", project="shop", rules=ASK)
    await asked(open_to_grants, "r0")
    await open_to_grants.reply("r0", "always", actor=ANN)
    session = await demanding(ledger, ALWAYS)
    await session.grant("bash", "git push *", actor=ANN)
    await asked(session)
    again = await open_to_grants.submit("bash", ["git push"], request_id="r9")
    assert again.allowed, "where nothing is demanded the grant lifts as before"


async def test_a_grant_given_with_a_passkey_lifts_it(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger, ALWAYS)
    await asked(session)
    await session.reply("r1", "always", actor=ANN, signed=await signed_answer(session, ledger, key, "always"))
    other = await demanding(ledger, ALWAYS, "ses_2")
    assert (await other.ask("bash", ["git push"], request_id="r2")).allowed


async def test_riding_on_the_always_of_another_request(ledger: Ledger) -> None:
    rules = [*ASK, {"permission": "bash", "pattern": "git push*", "action": "ask", "answer_by": "passkey"}]
    session = await ledger.session("ses_1", project="shop", rules=rules)
    await asked(session, "r1")
    await session.submit("bash", ["git status"], request_id="r2", always=["git *"])
    assert (await session.reply("r2", "always", actor=ANN)).allowed
    assert await waits(session)


async def test_rejecting_another_request_to_end_one_that_must_be_signed(ledger: Ledger) -> None:
    rules = [*ASK, {"permission": "bash", "pattern": "git push*", "action": "ask", "answer_by": "passkey"}]
    session = await ledger.session("ses_1", rules=rules)
    await asked(session, "r1")
    await session.submit("bash", ["ls"], request_id="r2")
    await session.reply("r2", "reject", actor=ANN)
    assert await waits(session)


async def test_a_decider_that_allows_what_must_be_signed(server: RealServer) -> None:
    class Yes:
        name = "yes"

        def decide(self, session: str, question: Question, evaluation: Evaluation) -> Verdict:
            return Verdict.ALLOW

    async with Ledger.connect(server.url, entry_points=False, plugins=[Yes()]) as ledger:
        session = await demanding(ledger)
        await asked(session)


async def test_editing_a_harmless_call_into_one_that_must_be_signed(ledger: Ledger) -> None:
    session = await demanding(ledger, [{"answer_by": "passkey", "permission": "bash", "pattern": "git push*"}])
    await session.submit("bash", ["make"], request_id="r1", tool_name="bash", tool_input={"command": "make"})
    edited = session.reply("r1", "once", actor=ANN, updated_input={"command": "git push -f"})
    await refused(edited, PasskeyRequiredError)


async def test_a_demand_that_is_newer_than_the_request_binds_its_answer(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop", rules=ASK)
    await asked(session)
    await demanding(ledger)
    await refused(session.reply("r1", "once", actor=ANN), PasskeyRequiredError)


async def test_a_demand_stays_when_the_rules_are_changed_back(ledger: Ledger) -> None:
    session = await demanding(ledger)
    await asked(session)
    await ledger.session("ses_1", rules=ASK)
    await refused(session.reply("r1", "once", actor=ANN), PasskeyRequiredError)


async def test_a_sub_agent_escapes_the_demands_of_its_parent(ledger: Ledger) -> None:
    await demanding(ledger)
    child = await ledger.session("ses_child", parent="ses_1", rules=ASK)
    await child.submit("bash", ["git push"], request_id="r1")
    await refused(child.reply("r1", "once", actor=ANN), PasskeyRequiredError)


# --- with a signature that is not over this ---------------------------------------------------------------------------


async def test_replaying_a_signature_on_another_request(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session, "r1")
    await asked(session, "r2")
    signed = await signed_answer(session, ledger, key)
    await session.reply("r1", "once", actor=ANN, signed=signed)
    await refused(session.reply("r2", "once", actor=ANN, signed=signed))
    assert await waits(session, "r2")


async def test_sending_the_same_signed_answer_again_changes_nothing(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    signed = await signed_answer(session, ledger, key)
    first = await session.reply("r1", "once", actor=ANN, signed=signed)
    assert (await session.reply("r1", "once", actor=ANN, signed=signed)).version == first.version


async def test_turning_a_signed_once_into_an_always(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    signed = await signed_answer(session, ledger, key, "once")
    await refused(session.reply("r1", "always", actor=ANN, signed=signed))
    assert await waits(session)


async def test_swapping_the_patterns_between_looking_and_answering(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    other = await demanding(ledger, session="ses_2")
    await other.submit("bash", ["git push"], request_id="r1", always=["*"])
    signed = await signed_answer(session, ledger, key, "always")
    await refused(other.reply("r1", "always", actor=ANN, signed=signed))
    assert await waits(other)


async def test_changing_the_input_or_the_words_after_they_were_signed(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session, tool_name="bash", tool_input={"command": "git push"})
    signed = await signed_answer(session, ledger, key)
    await refused(session.reply("r1", "once", actor=ANN, signed=signed, updated_input={"command": "git push -f"}))
    signed = await signed_answer(session, ledger, key, "reject")
    await refused(session.reply("r1", "reject", actor=ANN, signed=signed, message="push with --force instead"))
    assert await waits(session)


async def test_changing_the_rules_after_they_were_signed(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    signed = await signed_answer(session, ledger, key)
    await ledger.session("ses_1", rules=[*ASK, {"permission": "read", "pattern": "*", "action": "allow"}])
    await refused(session.reply("r1", "once", actor=ANN, signed=signed))


async def test_signing_as_somebody_else(ledger: Ledger) -> None:
    key, session = await enrolled(ledger, "bob"), await demanding(ledger)
    await asked(session)
    await refused(session.reply("r1", "once", actor=ANN, signed=await signed_answer(session, ledger, key)))


async def test_signing_with_a_passkey_that_nobody_registered(ledger: Ledger) -> None:
    await enrolled(ledger)
    session = await demanding(ledger)
    await asked(session)
    signed = await signed_answer(session, ledger, Authenticator())
    await refused(session.reply("r1", "once", actor=ANN, signed=signed), UnknownPasskeyError)


async def test_signing_without_user_verification(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    key.verifies = False
    text = await refused(session.reply("r1", "once", actor=ANN, signed=await signed_answer(session, ledger, key)))
    assert "verif" in text


async def test_signing_on_another_site(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    challenge = await challenge_for(session, ledger, "r1", "once")
    key.origin = "https://evil.example"
    await refused(session.reply("r1", "once", actor=ANN, signed=key.sign(challenge)))
    key.origin, key.rp_id = "https://evil.example", "evil.example"
    await refused(session.reply("r1", "once", actor=ANN, signed=key.sign(challenge)))
    assert await waits(session)


async def test_signing_in_a_frame_of_another_page(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    challenge = await challenge_for(session, ledger, "r1", "once")
    text = await refused(session.reply("r1", "once", actor=ANN, signed=key.sign(challenge, crossOrigin=True)))
    assert "frame" in text


async def test_signing_a_challenge_of_ones_own_making(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    challenge = await challenge_for(session, ledger, "r1", "once")
    own = challenge._replace(claims=replace(challenge.claims, nonce="mine"))
    text = await refused(session.reply("r1", "once", actor=ANN, signed=key.sign(own)))
    assert "challenge" in text


async def test_signing_a_challenge_that_is_too_old(server: RealServer, clock: TestClock) -> None:
    async with Ledger.connect(server.url, entry_points=False, clock=clock) as ledger:
        key, session = await enrolled(ledger), await demanding(ledger)
        await asked(session)
        signed = await signed_answer(session, ledger, key)
        clock.advance("6m")
        assert "too old" in await refused(session.reply("r1", "once", actor=ANN, signed=signed))


async def test_signing_with_a_copy_of_the_passkey(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    for request_id in ("r1", "r2"):
        await asked(session, request_id)
    key.count = 40
    await session.reply("r1", "once", actor=ANN, signed=await signed_answer(session, ledger, key))
    key.count = 7
    signed = await signed_answer(session, ledger, key, request_id="r2")
    assert "copied" in await refused(session.reply("r2", "once", actor=ANN, signed=signed))


# --- the passkeys themselves ------------------------------------------------------------------------------------------


async def test_registering_a_passkey_of_ones_own_in_a_stolen_browser(ledger: Ledger) -> None:
    await enrolled(ledger)
    await refused(enrolled(ledger), PasskeyRequiredError)


async def test_a_person_registers_another_with_the_consent_of_the_first(ledger: Ledger) -> None:
    first, new = await enrolled(ledger), await made(ledger)
    await ledger.passkeys.register(ANN, "phone", **new, consent=first.sign(await consent_to(ledger, new)))
    assert [one.name for one in await ledger.passkeys.of(ANN)] == ["key ring", "phone"]
    assert await passkey_problems(ledger) == []


async def test_enrolling_a_key_of_ones_own_with_the_consent_to_another(ledger: Ledger) -> None:
    first, new, own = await enrolled(ledger), await made(ledger), await made(ledger)
    given = await consent_to(ledger, new)
    text = await refused(ledger.passkeys.register(ANN, "phone", **own, consent=first.sign(given)))
    assert "another answer or passkey" in text
    unnamed = await ledger.passkeys.enrolment_challenge(ANN, "register")
    await refused(ledger.passkeys.register(ANN, "phone", **own, consent=first.sign(unnamed)))
    assert [one.name for one in await ledger.passkeys.of(ANN)] == ["key ring"]


async def test_enrolling_a_key_of_ones_own_under_the_id_of_the_consented_one(ledger: Ledger) -> None:
    first, second, forger = await enrolled(ledger), Authenticator(), Authenticator()
    new = await made(ledger, second)
    given = await consent_to(ledger, new)
    forger.credential_id = second.credential_id
    await refused(ledger.passkeys.register(ANN, "phone", **await made(ledger, forger), consent=first.sign(given)))
    await ledger.passkeys.register(ANN, "phone", **new, consent=first.sign(given))


async def test_removing_the_passkey_of_a_person_to_be_rid_of_it(ledger: Ledger) -> None:
    key = await enrolled(ledger)
    await refused(ledger.passkeys.remove(key.id, actor=ANN), PasskeyRequiredError)
    challenge = await ledger.passkeys.enrolment_challenge(ANN, "register")
    await refused(ledger.passkeys.remove(key.id, actor=ANN, consent=key.sign(challenge)))
    challenge = await ledger.passkeys.enrolment_challenge(ANN, "remove", key.id)
    assert (await ledger.passkeys.remove(key.id, actor=ANN, consent=key.sign(challenge))).removed_ms


async def test_answering_with_a_passkey_that_was_removed(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    signed = await signed_answer(session, ledger, key)
    await ledger.passkeys.remove(key.id, administrator=True)
    await refused(session.reply("r1", "once", actor=ANN, signed=signed), UnknownPasskeyError)


async def test_registering_without_user_verification(ledger: Ledger) -> None:
    await refused(enrolled(ledger, verifies=False))


async def test_registering_where_passkeys_cannot_be(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="https"):
        await enrolled(ledger, rp_id="127.0.0.1", origin="http://127.0.0.1:8420")


# --- on the server ----------------------------------------------------------------------------------------------------


async def problems_of(ledger: Ledger, session: str = "ses_1", kept: Any = None, depth: Depth = "events") -> list[str]:
    anchors = await read_anchors(ledger.store, kept)
    checked = await StreamChecker(ledger.store, None, anchors, depth).check(StreamKey("session", session))
    return [f"{one.kind}: {one.text}" for one in checked.problems]


async def test_nothing_is_found_where_every_answer_was_signed(ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    replies: tuple[ReplyKind, ...] = ("once", "session", "always", "reject")
    for number, reply in enumerate(replies):
        await session.submit("bash", [f"do {number}"], request_id=f"r{number}", always=[f"do {number}"])
        signed = await signed_answer(session, ledger, key, reply, f"r{number}")
        await session.reply(f"r{number}", reply, actor=ANN, signed=signed)
    await session.submit("bash", ["do 2"], request_id="lifted")
    assert await problems_of(ledger) == []
    assert (
        await check_stream(ledger.store, StreamKey("project", "shop"), None, await read_anchors(ledger.store, None))
    ).ok


async def write_answer(server: RealServer, ledger: Ledger, *, proof_as: str = "proof", **answer: Any) -> None:
    """Write an answer straight into the stream, as an attacker with access to the server can."""
    event = {"type": "replied", "request_id": "r1", "reply": "once", "outcome": "allowed", **answer}
    await write_event(server, ledger, event, proof_as=proof_as)


async def write_event(server: RealServer, ledger: Ledger, event: dict[str, Any], *, proof_as: str = "proof") -> None:
    """Write an event of Ann's straight into the session's stream, with a spelling of the member `proof`."""
    await append_forged(server, ledger, StreamKey("session", "ses_1"), event, person(ANN), spelling=("proof", proof_as))


async def test_writing_an_answer_into_the_log(server: RealServer, ledger: Ledger) -> None:
    session = await demanding(ledger)
    await asked(session)
    await write_answer(server, ledger)
    assert [text for text in await problems_of(ledger) if "unproven" in text and "the answer is not signed" in text]


async def test_an_agent_that_waits_is_not_told_of_an_answer_written_into_the_log(
    server: RealServer, ledger: Ledger
) -> None:
    session = await demanding(ledger)
    await asked(session)
    await write_answer(server, ledger)
    assert "without a valid passkey signature" in await refused(session.wait("r1"), DamageError)
    assert "without a valid passkey signature" in await refused(session.result("r1"), DamageError)


async def proof_of(session: Session) -> dict[str, Any]:
    """Return the proof of the first answer, as the log holds it."""
    found = [one.event async for one in session.events(0, follow_on=False) if one.type == "replied"]
    proof: dict[str, Any] = msgspec.to_builtins(found[0])["proof"]
    return proof


async def test_copying_a_signature_to_another_answer_in_the_log(server: RealServer, ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session, "r0")
    signed = await signed_answer(session, ledger, key, request_id="r0")
    await session.reply("r0", "once", actor=ANN, signed=signed)
    await asked(session)
    await write_answer(server, ledger, proof=await proof_of(session))
    found, again = await problems_of(ledger)
    assert "differs in `request_id`" in found
    assert "was used again" in again


async def test_rewriting_the_claims_of_a_signature_in_the_log(server: RealServer, ledger: Ledger) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    await asked(session, "r0")
    signed = await signed_answer(session, ledger, key, request_id="r0")
    await session.reply("r0", "once", actor=ANN, signed=signed)
    await asked(session)
    proof = await proof_of(session)
    digest = (await session.state()).pending["r1"].digest
    proof["claims"].update(request_id="r1", digest=digest, nonce="another")
    await write_answer(server, ledger, proof=proof)
    (found,) = await problems_of(ledger)
    assert "challenge" in found


@pytest.mark.parametrize("depth", ["chain", "events"])
@pytest.mark.parametrize("spelling", ["proof", r"pr\u006fof"])
async def test_spelling_the_proof_of_a_forged_answer_in_another_way(
    server: RealServer, ledger: Ledger, spelling: str, depth: Depth
) -> None:
    key, session = await enrolled(ledger), await demanding(ledger, session="ses_2")
    await asked(session, "r0")
    signed = await signed_answer(session, ledger, key, request_id="r0")
    await session.reply("r0", "once", actor=ANN, signed=signed)
    # No rule of this session demands a signature, so that only the proof itself says that there is one.
    await asked(await ledger.session("ses_1", project="shop", rules=ASK))
    await write_answer(server, ledger, proof=await proof_of(session), proof_as=spelling)
    (found,) = await problems_of(ledger, depth=depth)
    assert "differs in" in found


async def test_enrolling_a_key_of_ones_own_on_the_server(server: RealServer, ledger: Ledger) -> None:
    key = await enrolled(ledger)
    kept = dict(anchors_of([], (await read_anchors(ledger.store, None)).known).known)
    assert set(kept) == {key.id}
    # An attacker who can write on the server removes the person's passkey, and enrolls and uses another.
    await ledger.passkeys.remove(key.id, administrator=True)
    forger, session = await enrolled(ledger), await demanding(ledger)
    await asked(session)
    await session.reply("r1", "once", actor=ANN, signed=await signed_answer(session, ledger, forger))
    assert await problems_of(ledger) == [], "by the log alone the key counts"
    (found,) = await problems_of(ledger, kept=kept)
    assert "an unknown passkey" in found
    passkeys = await check_stream(ledger.store, PASSKEYS, None, await read_anchors(ledger.store, kept))
    assert [one.kind for one in passkeys.problems] == ["unproven"]


async def forged(server: RealServer, ledger: Ledger, proof: Any) -> Authenticator:
    """Write a registration with a proof into the stream of passkeys, as an attacker with access to the server can."""
    forger = Authenticator()
    new = await ledger.passkeys.made(ANN, **await made(ledger, forger))
    event = PasskeyRegistered(
        person=ANN, credential_id=new.credential_id, public_key=new.public_key, rp_id=RP_ID, proof=proof
    )
    await append_forged(server, ledger, PASSKEYS, msgspec.to_builtins(event), person(ANN))
    return forger


async def passkey_problems(ledger: Ledger, kept: Any = None) -> list[str]:
    checked = await check_stream(ledger.store, PASSKEYS, None, await read_anchors(ledger.store, kept))
    return [one.text for one in checked.problems]


async def test_enrolling_a_key_with_the_proof_of_an_answer_or_of_another_key(
    server: RealServer, ledger: Ledger
) -> None:
    key, session = await enrolled(ledger), await demanding(ledger)
    kept = dict((await read_anchors(ledger.store, None)).known)
    await asked(session)
    await session.reply("r1", "once", actor=ANN, signed=await signed_answer(session, ledger, key))
    new = await made(ledger)
    await ledger.passkeys.register(ANN, "phone", **new, consent=key.sign(await consent_to(ledger, new)))
    answer = (await session.result("r1")).settled
    consents = [getattr(one.event, "proof", None) for one in await recorded(ledger)]
    assert answer is not None
    forgers = [await forged(server, ledger, proof) for proof in (answer.proof, *filter(None, consents))]
    problems = await passkey_problems(ledger)
    assert len([one for one in problems if "is not this change of passkeys" in one]) == 2
    assert "was used again" in problems[-1]
    known = anchors_of(await recorded(ledger), kept).known
    assert not known.keys() & {one.id for one in forgers}


async def recorded(ledger: Ledger) -> list[Any]:
    return list(readable((await ledger.store.open(PASSKEYS)).entries))


async def test_a_consent_of_an_older_version_that_names_no_key_still_verifies(
    server: RealServer, ledger: Ledger
) -> None:
    key = await enrolled(ledger)
    challenge = await ledger.passkeys.enrolment_challenge(ANN, "register")
    (first,) = await ledger.passkeys.of(ANN)
    signed = key.sign(challenge)
    proof = Proof(
        claims=challenge.claims,
        assertion=signed.assertion,
        public_key=first.public_key,
        rp_id=signed.rp_id,
        origin=signed.origin,
    )
    await forged(server, ledger, proof)
    assert await passkey_problems(ledger) == []


async def test_leaving_the_demand_out_of_an_ask_in_the_log(server: RealServer, ledger: Ledger) -> None:
    session = await demanding(ledger)
    await asked(session, "r0")
    (event,) = [one.event async for one in session.events(0, follow_on=False) if one.type == "asked"]
    bare = {name: value for name, value in msgspec.to_builtins(event).items() if name != "demands"}
    await write_answer(server, ledger, **{**bare, "request_id": "r1"})
    assert [text for text in await problems_of(ledger) if "without the demands of its rules" in text]


# --- demands that cannot be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("demands", "words"),
    [
        ([{"answer_by": "fingerprint"}], "answer_by"),
        ([{"answerby": "passkey"}], "no member `answerby`"),
        ([{"replies": ["always"]}], "demand is empty"),
        ([{"answer_by": "passkey", "replies": ["yes"]}], "cannot be read"),
        (["passkey"], "is an object"),
        ({"answer_by": "passkey"}, "must be a list"),
    ],
)
async def test_a_misspelt_demand_is_no_demand(ledger: Ledger, demands: Any, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        await demanding(ledger, demands)


async def test_a_rule_that_allows_and_demands_at_once_is_refused(ledger: Ledger) -> None:
    rule = {"permission": "bash", "pattern": "*", "action": "allow", "answer_by": "passkey"}
    with pytest.raises(PolicyError, match="goes with `ask`"):
        await ledger.session("ses_1", rules=[rule])


# --- several approvers ------------------------------------------------------------------------------------------------


async def yes_of(session: Session, ledger: Ledger, key: Authenticator, person: str, message: str | None = None) -> Any:
    given = GivenReply(reply="once", message=message)
    challenge = await ledger.passkeys.answer_challenge(await session.state(), "r1", given, person=person)
    return await session.reply("r1", "once", actor=person, signed=key.sign(challenge), message=message)


async def test_each_of_several_yeses_must_be_signed_and_keeps_its_proof(ledger: Ledger) -> None:
    anns, bobs = await enrolled(ledger), await enrolled(ledger, "bob")
    session = await demanding(ledger, [{"answer_by": "passkey", "approvers": 2}])
    await asked(session)
    assert (await yes_of(session, ledger, anns, ANN, "looks right")).outcome is None
    await refused(session.reply("r1", "once", actor="bob"), PasskeyRequiredError)
    assert await waits(session)
    assert (await yes_of(session, ledger, bobs, "bob")).outcome == "allowed"
    assert await problems_of(ledger) == []
    (given,) = (await session.state()).settled["r1"].request.agreed
    assert given.proof is not None
    assert given.proof.assertion.credential_id == anns.id


async def test_giving_the_yes_of_another_person_with_one_s_own_passkey(ledger: Ledger) -> None:
    anns = await enrolled(ledger)
    await enrolled(ledger, "bob")
    session = await demanding(ledger, [{"answer_by": "passkey", "approvers": 2}])
    await asked(session)
    await yes_of(session, ledger, anns, ANN)
    await refused(yes_of(session, ledger, anns, "bob"))
    assert await waits(session)


async def test_writing_an_unsigned_yes_into_the_log(server: RealServer, ledger: Ledger) -> None:
    bobs, session = await enrolled(ledger, "bob"), await demanding(ledger, [{"answer_by": "passkey", "approvers": 2}])
    await asked(session)
    digest = shown_digest((await session.state()).pending["r1"])
    await write_event(server, ledger, {"type": "agreed", "request_id": "r1", "digest": digest})
    assert (await yes_of(session, ledger, bobs, "bob")).outcome is None, "an unsigned yes counts for nothing"
    assert [text for text in await problems_of(ledger) if f"`{ANN}` approved request `r1`, and a passkey" in text]


# --- at the gateway ---------------------------------------------------------------------------------------------------


async def enrolled_at(person: Caller, key: Authenticator, **headers: str) -> httpx.Response:
    """Register a person's passkey as the account page does."""
    challenge = await person.post("/v1/passkeys/challenge", {"action": "register"}, **headers)
    if challenge.status_code != 200:
        return challenge
    made = {name: challenge.json()[name] for name in ("nonce", "until_ms")}
    made["response"] = key.create(base64url_to_bytes(challenge.json()["challenge"]))
    return await person.post("/v1/passkeys", {"name": "laptop", **made}, **headers)


async def test_touching_a_passkey_on_a_page_of_another_port(gateway: Served, ann: Caller) -> None:
    here, there = ({"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"} for port in (8420, 9999))
    key = Authenticator()
    assert (await enrolled_at(ann, key, **here)).status_code == 201
    session = await demanding(gateway.ledger)
    await asked(session)
    place = "/v1/sessions/ses_1/asks/r1"
    # The page of the other port relays everything, and says the headers that fit.
    assert (await ann.post(f"{place}/challenge", {"reply": "once"}, **there)).status_code == 422
    challenge = (await ann.post(f"{place}/challenge", {"reply": "once"}, **here)).json()
    key.origin = there["Origin"]
    signed = {name: challenge[name] for name in ("nonce", "until_ms")}
    signed["assertion"] = msgspec.to_builtins(key.get(base64url_to_bytes(challenge["challenge"])))
    for headers in (there, here, {**there, "Host": "localhost:8420"}):
        answer = await ann.post(f"{place}/reply", {"reply": "once", "signed": signed}, **headers)
        assert answer.json()["code"] in ("INPUT", "PASSKEY_REFUSED"), answer.text
    assert await waits(session)


async def test_registering_a_passkey_on_a_page_of_another_port(ann: Caller) -> None:
    key = Authenticator(origin="http://localhost:9999")
    refused = await enrolled_at(ann, key, Host="localhost:9999", Origin=key.origin)
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")
    assert "`http://localhost:9999`: open http://localhost:8420;" in refused.json()["detail"]


async def test_registering_a_second_passkey_at_the_gateway_names_it(ann: Caller) -> None:
    here = {"Host": "localhost:8420", "Origin": ORIGIN}
    first, second = Authenticator(), Authenticator()
    await enrolled_at(ann, first, **here)
    issued = (await ann.post("/v1/passkeys/challenge", {"action": "register"}, **here)).json()
    made = {name: issued[name] for name in ("nonce", "until_ms")}
    made["response"] = second.create(base64url_to_bytes(issued["challenge"]))
    asked_for = (await ann.post("/v1/passkeys/challenge", {"action": "register", "made": made}, **here)).json()
    assert asked_for["claims"]["credential_id"] == second.id
    consent = {name: asked_for[name] for name in ("nonce", "until_ms")}
    consent["assertion"] = msgspec.to_builtins(first.get(base64url_to_bytes(asked_for["challenge"])))
    registered = await ann.post("/v1/passkeys", {"name": "phone", **made, "consent": consent}, **here)
    assert (registered.status_code, registered.json()["vouched"]) == (201, True)


@pytest.mark.parametrize(
    ("public_url", "hosts", "origins"),
    [
        ("http://127.0.0.1:8420", (), {"http://127.0.0.1:8420", "http://localhost:8420"}),
        ("https://ledger.example.com", (), {"https://ledger.example.com"}),
        (
            "https://ledger.example.com:8443",
            ("other.example.com",),
            {"https://ledger.example.com:8443", "https://other.example.com"},
        ),
        ("http://[::1]:80", ("http://localhost:9000",), {"http://[::1]", "http://localhost", "http://localhost:9000"}),
    ],
)
def test_passkeys_count_at_the_configured_origins(public_url: str, hosts: tuple[str, ...], origins: set[str]) -> None:
    assert passkey_origins([], public_url, hosts) == origins


def test_passkeys_count_at_the_ports_that_the_gateway_has_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        origins = passkey_origins([bound], "https://ledger.example.com", ())
    assert origins == {"https://ledger.example.com", f"http://localhost:{port}"}
