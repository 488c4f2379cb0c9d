"""The event of a yes to a request that needs those of several people. See `ledger.core.events`."""

from __future__ import annotations

from ledger.core.event_shapes import Detail, Value
from ledger.core.proofs import Proof


class MessageDetail(Detail, frozen=True):
    message: str | None = None


class Agreed(Value, tag="agreed", kw_only=True, frozen=True):
    """A person's yes to a request that needs those of more people: it is still pending.

    The yes that completes the number is `Replied`. `digest` is that of the request as it was shown, and `round` its
    round: in another round the yes does not count. `needed` is the number of people that was demanded then. `role` is
    the person's, None if unknown; `proof` is that of a passkey's signature.
    """

    request_id: str
    digest: str
    round: int = 1
    needed: int = 2
    role: str | None = None
    client_id: str | None = None
    proof: Proof | None = None
    detail: MessageDetail | None = None
