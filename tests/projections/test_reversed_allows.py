"""An allow that was reversed before it was returned is not counted, however the views are made."""

from __future__ import annotations

import pytest

from ledger.log.tail import nothing_folded
from ledger.stores.port import StreamKey
from projections.comparison import Rebuilt
from projections.projection import seen
from projections.views import Changes
from tests.support.commands import asks, grants_in_project, opens, rechecks, replies, revokes_in_project
from tests.support.scenario import Project, Scenario, given, later

KEY = StreamKey("session", "ses_1")
ASKED = asks("per_1", "git push")


@pytest.fixture
def scenario() -> Scenario:
    return given(
        opens(project="shop"),
        grants_in_project("grn_1", "bash", "*"),
        ASKED,
        revokes_in_project("grn_1"),
        later("1s"),
        rechecks(ASKED),
        later("1s"),
        replies("per_1", "reject", round_=2),
        project=Project("shop"),
    )


def views_of(scenario: Scenario, *cuts: int) -> dict[str, dict[str, bytes | int]]:
    """Return the views of a history that is projected in several runs of events, which begin with these versions."""
    folded = nothing_folded(KEY)
    rebuilt = Rebuilt()
    changes = Changes(KEY, folded.state, new=True)
    for entry in scenario.entries:
        if entry.version in cuts:
            rebuilt.apply(changes.writes())
            changes = Changes(KEY, folded.state)
        recorded, after = folded.next(KEY, entry)
        changes.take(seen(folded.state, recorded, after.state))
        folded = after
    rebuilt.apply(changes.writes())
    return {view: fields for view, fields in rebuilt.views.items() if fields}


def test_views_made_at_once_count_it_as_those_that_followed_each_event(scenario: Scenario) -> None:
    assert [entry.version for entry in scenario.entries] == [1, 2, 3, 4]
    at_once = views_of(scenario)
    assert at_once == views_of(scenario, 2, 3, 4) == views_of(scenario, 3)
    counts = {field.replace("\n", " "): int(value) for field, value in at_once["counts"].items()}
    assert (counts["decision auto_allow"], counts["decision user_deny"]) == (0, 1)
    assert counts["duration user_deny sum"] == 2_000
