"""The demands of rules on an answer, as sentences for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from ledger.core.policy import Demand, ReplyKind
from ledger.policy.demands import PASSKEY, concerns


def demand_sentences(demands: Iterable[Demand], asking: str) -> tuple[str, ...]:
    """Return demands on an answer, a sentence each; `asking` is in words who asks."""
    return tuple(dict.fromkeys(_sentences(demands, asking)))


def _sentences(demands: Iterable[Demand], asking: str) -> Iterator[str]:
    for demand in demands:
        if demand.answer_by == PASSKEY:
            yield f"{_answers(demand)} must be signed with a passkey, in the inbox"
        if demand.approvers:
            people = f", counting only {_listed(demand.among)}" if demand.among else ""
            yield f"{demand.approvers} people must approve it, none of them {asking}{people}"
        if demand.not_by == "asker":
            yield f"{_answers(demand)} must come from somebody else than {asking}"


def _answers(demand: Demand) -> str:
    replies = [one for one in get_args(ReplyKind) if demand.replies and concerns(demand, one)]
    of = f" of the role {_listed(demand.roles)}" if demand.roles else ""
    what = f"the answer {_listed(replies)}" if replies else "the answer"
    return f"{what} of somebody{of}" if of else what


def _listed(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)
