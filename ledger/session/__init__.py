"""The session: pure `decide` and `evolve`. No I/O, no clock, no randomness."""

from ledger.session.decide import decide
from ledger.session.decision import Decision
from ledger.session.evolve import evolve
from ledger.session.settle import Settlement, needs_presence, settle
from ledger.session.state import SessionState, next_due_ms

__all__ = ["Decision", "SessionState", "Settlement", "decide", "evolve", "needs_presence", "next_due_ms", "settle"]
