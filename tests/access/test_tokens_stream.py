"""The stream of access tokens: when a token ends, and what ends with it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger.access.state import AccessCommand, AccessState, CreateToken, RevokeToken, decide_access, evolve_access
from ledger.core.errors import UnknownTokenError
from ledger.core.events import Actor
from ledger.core.grants import Recorded

ROOT: Final = Actor("person", "root")
T0: Final = 1_800_000_000_000


def after(*commands: AccessCommand) -> AccessState:
    state = AccessState()
    for command in commands:
        for event in decide_access(state, command, T0):
            version = state.version + 1
            state = evolve_access(state, Recorded(event, command.actor, T0, version, f"evt_{version}"))
    return state


def link(**more: Any) -> CreateToken:
    return CreateToken(actor=ROOT, token_id="tok_link", name="ann", role="approver", digest="a", use="sign_in", **more)


def browser(token_id: str = "tok_browser") -> CreateToken:
    return CreateToken(
        actor=ROOT,
        token_id=token_id,
        name="ann",
        role="approver",
        digest=token_id,
        use="browser",
        made_from="tok_link",
        redeems="tok_link",
    )


def revoke(token_id: str) -> RevokeToken:
    return RevokeToken(actor=ROOT, token_id=token_id)


def test_of_two_browsers_that_were_let_in_at_once_one_redeems_the_link() -> None:
    state = after(link(), browser())
    assert decide_access(state, browser(), T0) == (), "the same browser again"
    with pytest.raises(UnknownTokenError, match="was used"):
        decide_access(state, browser("tok_other"), T0)


@pytest.mark.parametrize("ended", [after(link(), revoke("tok_link")), after(link(expires_in_ms=1))])
def test_a_link_that_was_revoked_or_has_expired_meanwhile_signs_nobody_in(ended: AccessState) -> None:
    with pytest.raises(UnknownTokenError, match="revoked or has expired"):
        decide_access(ended, browser(), T0 + 1)


def test_a_browser_outlives_the_use_of_its_link_and_ends_when_that_is_revoked() -> None:
    assert after(link(), browser()).token("tok_browser", T0) is not None
    assert after(link(), browser(), revoke("tok_link")).token("tok_browser", T0) is None


def test_a_token_is_over_at_the_moment_of_its_end() -> None:
    state = after(link(expires_in_ms=1000))
    assert [state.token("tok_link", T0 + ms) is not None for ms in (999, 1000)] == [True, False]


def test_an_agent_acts_for_whoever_made_its_token_and_a_person_for_nobody_else() -> None:
    made = [
        CreateToken(actor=ROOT, token_id=f"tok_{one}", name="x", role=one, digest="d") for one in ("agent", "approver")
    ]
    tokens = after(*made).tokens
    assert [tokens[one.token_id].owner for one in made] == ["root", "x"]
