"""The events that allow something: every type is classified, and no append may allow without saying so."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger.core.events import Agreed, Asked, Claimed, Event, Granted, Reopened, Replied
from ledger.core.freezes import any_allowing
from ledger.core.policy import Verdict
from tests.support.events import EVENT_TYPES

ALLOWING: Final = frozenset({"agreed", "asked", "claimed", "reopened", "replied", "granted"})
"""The types of which some events allow something; the examples below say which."""

NEVER: Final = frozenset(
    {
        "session_opened", "policy_changed", "rules_stored", "revoked", "deadline_moved", "expired", "cancelled", "client_connected",
        "client_disconnected", "lock_taken", "lock_requested", "lock_passed", "notification", "tool_finished",
        "log_regressed", "imported", "session_closed", "token_created", "token_redeemed", "token_revoked",
        "link_key_replaced", "passkey_registered", "passkey_removed", "passkey_used", "frozen", "unfrozen",
        "claim_released", "end_unknown", "redacted", "use_taken", "hold_placed", "hold_lifted",
        "push_subscribed", "push_used", "push_ended", "notifications_chosen", "services_named",
    }
)  # fmt: skip
"""The types of which no event allows anything."""


def asked(verdict: Verdict) -> Asked:
    return Asked(request_id="r", permission="bash", verdict=verdict, digest="d", policy_digest="p")


def replied(outcome: Any, **more: Any) -> Replied:
    return Replied(request_id="r", reply="once", outcome=outcome, **more)


def test_every_type_of_event_is_known_to_allow_something_or_nothing() -> None:
    assert set(EVENT_TYPES) == ALLOWING | NEVER
    assert not ALLOWING & NEVER


@pytest.mark.parametrize(
    ("event", "allows"),
    [
        (Agreed(request_id="r", digest="d"), True),
        (asked(Verdict.ALLOW), True),
        (asked(Verdict.ASK), False),
        (asked(Verdict.DENY), False),
        (Claimed(request_id="r", claim_id="c", runner="worker", policy_digest="p"), True),
        (Reopened(request_id="r", verdict=Verdict.ALLOW), True),
        (Reopened(request_id="r", verdict=Verdict.ASK), False),
        (Reopened(request_id="r", verdict=Verdict.DENY), False),
        (replied("allowed"), True),
        (replied("denied", grants=("grn_1",), scope="session"), True),
        (replied("denied"), False),
        (replied("rejected"), False),
        (replied("corrected"), False),
        (Granted(grant_id="g", permission="bash", scope="session", request_id="r"), True),
        (Granted(grant_id="g", permission="bash", scope="project"), True),
        # It follows from an answer that was itself declared, and repeats it in another stream.
        (Granted(grant_id="g", permission="bash", scope="project", request_id="r"), False),
    ],
)
def test_an_event_allows_by_what_it_says(event: Event, allows: bool) -> None:
    assert any_allowing([event]) is allows


def test_one_allowing_event_among_others_is_enough() -> None:
    assert any_allowing([asked(Verdict.DENY), asked(Verdict.ALLOW), asked(Verdict.ASK)])
    assert not any_allowing([])
