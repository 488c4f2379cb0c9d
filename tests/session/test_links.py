"""Links of then and of now: an approval is for the files that its paths led to."""

from __future__ import annotations

import pytest

from ledger.core.policy import ConsultedFacts, ConsultedFile, Evaluation, Verdict
from ledger.masks.own_input import mask_text
from ledger.session.judging import changed_link, links_of

PLAIN, LINK = ConsultedFile("/p/a"), ConsultedFile("/p/l", found="/p/a")


def judged(*files: ConsultedFile) -> Evaluation:
    return Evaluation(Verdict.ASK, facts=ConsultedFacts(files))


@pytest.mark.parametrize(
    ("then", "now", "says"),
    [
        ((PLAIN, LINK), (PLAIN, LINK), None),
        ((PLAIN, LINK), (ConsultedFile("/p/l", found="/etc/x"),), "`/p/l` leads to `/etc/x` now, and to `/p/a` when"),
        ((PLAIN, LINK), (ConsultedFile("/p/l"),), "`/p/l` leads to `/p/l` now, and to `/p/a` when"),
        ((PLAIN,), (ConsultedFile("/p/a", found="/etc/x"),), "`/p/a` leads to `/etc/x` now, and to `/p/a` when"),
        ((PLAIN, LINK), (PLAIN,), None),
        ((PLAIN,), (PLAIN, ConsultedFile("/p/b")), None),
        ((ConsultedFile("/p/a", "kind"),), (ConsultedFile("/p/a", "kind", "file"),), None),
    ],
)
def test_a_path_that_leads_elsewhere_is_a_change(
    then: tuple[ConsultedFile, ...], now: tuple[ConsultedFile, ...], says: str | None
) -> None:
    found = changed_link(links_of(judged(*then)), judged(*now))
    assert (found is None) if says is None else (found is not None and says in found)


def test_files_of_which_the_log_says_nothing_are_not_compared() -> None:
    masked = judged(ConsultedFile(f"/p/{mask_text('github', '0' * 12)}", found="/etc/x"))
    many = Evaluation(Verdict.ASK, facts=ConsultedFacts(too_many=Verdict.ALLOW))
    for then in (None, Evaluation(Verdict.ASK), many, masked):
        assert changed_link(links_of(then), judged(LINK)) is None
