"""The recorded answer of a decider that failed."""

from __future__ import annotations

import pytest

from ledger.core.events import Opinion
from ledger.core.policy import Verdict
from ledger.session.judging import with_opinions

FAILED_GUARD = Opinion("guard", Verdict.ASK, failed="no answer within 1 s")
FAILED_STRICT_GUARD = Opinion("guard", Verdict.DENY, failed="no answer within 1 s")
GENEROUS = Opinion("generous", Verdict.ALLOW)


@pytest.mark.parametrize("rules_say", [Verdict.ALLOW, Verdict.ASK])
def test_no_later_decider_allows_what_a_failed_one_might_have_stopped(rules_say: Verdict) -> None:
    assert with_opinions(rules_say, (FAILED_GUARD, GENEROUS)) is Verdict.ASK


@pytest.mark.parametrize("rules_say", [Verdict.ALLOW, Verdict.ASK])
def test_no_earlier_allow_outweighs_a_failed_decider_after_it(rules_say: Verdict) -> None:
    assert with_opinions(rules_say, (GENEROUS, FAILED_GUARD)) is Verdict.ASK


def test_a_failed_decider_that_denies_on_failure_denies() -> None:
    assert with_opinions(Verdict.ALLOW, (FAILED_STRICT_GUARD, GENEROUS)) is Verdict.DENY
