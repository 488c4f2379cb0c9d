"""A signed grant that an import brought counts as unsigned: nobody has verified the signatures of a file."""

from __future__ import annotations

from ledger.core.event_shapes import AnswerClaims, Assertion, Proof
from ledger.core.events import Asked, Granted, GrantedDetail, Imported
from ledger.core.policy import DemandRule, Verdict
from tests.session.test_demands import opens_with
from tests.support.commands import asks
from tests.support.scenario import Scenario, given

SIGNED = DemandRule(answer_by="passkey", permission="bash")


def proof() -> Proof:
    claims = AnswerClaims(
        person="ann",
        session="ses_1",
        request_id="per_0",
        digest="",
        reply="session",
        policy_digest="",
        nonce="",
        until_ms=0,
    )
    assertion = Assertion(credential_id="", authenticator_data="", client_data="", signature="")
    return Proof(claims=claims, assertion=assertion, public_key="", rp_id="", origin="")


def granted() -> Granted:
    detail = GrantedDetail("git *")
    return Granted(grant_id="gra_1", permission="bash", scope="session", proof=proof(), detail=detail)


def verdict_after(scenario: Scenario) -> Verdict:
    (asked,) = scenario.when(asks("per_1", "git push")).events
    assert isinstance(asked, Asked)
    return asked.verdict


def test_a_signed_grant_lifts_a_call_that_needs_a_passkey_until_it_was_imported() -> None:
    assert verdict_after(given(opens_with(SIGNED), granted())) is Verdict.ALLOW
    imported = Imported(versions=2, hash="0" * 64, in_force_count=1)
    assert verdict_after(given(opens_with(SIGNED), granted(), imported)) is Verdict.ASK


def test_an_unsigned_grant_that_was_imported_goes_on() -> None:
    imported = Imported(versions=2, hash="0" * 64, in_force_count=1)
    assert verdict_after(given(opens_with(), granted(), imported)) is Verdict.ALLOW
