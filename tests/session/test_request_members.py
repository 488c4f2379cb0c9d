"""The members of a request are those of its ask, whichever place they have in the struct."""

from __future__ import annotations

from typing import Any

from ledger.core.event_shapes import Proof
from ledger.core.events import Actor, Asked, AskedDetail, Opinion, Presence, ToolRef
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.session.evolve import evolve
from ledger.session.state import Request, SessionState

ASKER = Actor("agent", "worker-7")
OF_ASKED = (
    "tool_name",
    "agent",
    "parent",
    "token_id",
    "owner",
    "demands",
    "grants",
    "project_version",
    "rests_on_project",
)
OF_DETAIL = (
    *("salt", "patterns", "always", "metadata", "input"),
    *("not_honoured", "still_asked", "offers", "operands"),
)


def recognisable(names: tuple[str, ...]) -> dict[str, Any]:
    """Return a value of its own for each member, of a type that the fold does not look at."""
    return {name: (name,) for name in names}


def test_a_request_has_each_member_of_its_ask_under_the_same_name() -> None:
    opinions = (Opinion("decider", Verdict.ASK),)
    present, tool = (Presence("client-1", "phone"),), ToolRef("message-1", "call-1")
    event = Asked(
        request_id="per_1",
        permission="bash",
        verdict=Verdict.ASK,
        digest="d1",
        tier="attended",
        duration_ms=70_000,
        unattended_ms=80_000,
        cap_ms=90_000,
        waits_ms=60_000,
        present=present,
        tool=tool,
        detail=AskedDetail(cwd="/srv/shop", opinions=opinions, **recognisable(OF_DETAIL)),
        **recognisable(OF_ASKED),
    )
    state = evolve(SessionState(session_id="ses_1"), Recorded(event, ASKER, 1_000, 1, "evt_1"))
    request = state.pending["per_1"]
    assert {name: getattr(request, name) for name in Request.__struct_fields__} == dict(
        request_id="per_1",
        permission="bash",
        digest="d1",
        version=1,
        asked_ms=1_000,
        asker=ASKER,
        tool=tool,
        uses=(),
        unattended_ms=80_000,
        present=present,
        opinions=opinions,
        redacted=False,
        cwd="/srv/shop",
        evaluation=None,
        links=None,
        tier="attended",
        duration_ms=70_000,
        deadline_ms=71_000,
        cap_at_ms=91_000,
        waits_until_ms=61_000,
        summary=(),
        agreed=(),
        round=1,
        reopened_for=None,
        reopened_reason=None,
        reopened_versions=(),
        released_claims=(),
        ran=False,
        **recognisable(OF_DETAIL),
        **recognisable(OF_ASKED),
    )


def test_a_call_that_rules_allowed_is_settled_with_its_ask_and_the_proofs() -> None:
    proofs: tuple[Proof, ...] = recognisable(("proofs",))["proofs"]
    event = Asked(
        request_id="per_1",
        permission="bash",
        verdict=Verdict.ALLOW,
        digest="d1",
        proofs=proofs,
        detail=AskedDetail(patterns=("git status",)),
    )
    state = evolve(SessionState(session_id="ses_1"), Recorded(event, ASKER, 1_000, 1, "evt_1"))
    settled = state.settled["per_1"]
    assert settled.outcome == "allowed"
    assert (settled.by, settled.at_ms, settled.version) == (ASKER, 1_000, 1)
    assert (settled.proofs, settled.input_digest) == (proofs, None)
    assert settled.request.patterns == ("git status",)
    assert (state.version, state.last_ms) == (1, 1_000)
