"""The demands on the answer to a request, as sentences for the person who answers. Pure."""

from __future__ import annotations

from ledger.policy.demand_texts import demand_sentences
from ledger.session.demands import askers
from ledger.session.state import Request


def demanded(request: Request) -> tuple[str, ...]:
    """Return the recorded demands on the answer to a request, a sentence each, with names in backticks."""
    owner = None if request.owner == request.asker.name else request.owner
    asking = " or ".join(f"`{name}`" for name in askers(request.asker.name, owner))
    return demand_sentences(request.demands, asking)
