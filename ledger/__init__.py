"""An event-sourced permission ledger for AI agents: requests, answers, deadlines, grants, history.

async with Ledger.connect("redis://localhost") as ledger:
    session = await ledger.session("ses_1", project="shop", rules=[…])
    await session.ask("bash", ["git push"], always=["git push *"])
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to import, and hooks import leaves of this package

if TYPE_CHECKING:
    from ledger.client.claims import Claim, Permit
    from ledger.client.ledger import Ledger
    from ledger.client.results import Approved, Pending, Result
    from ledger.client.session import ClientConnection, Session
    from ledger.client.sync import SyncClientConnection, SyncLedger, SyncSession
    from ledger.core.errors import (
        AlreadyAnsweredError,
        AlreadyClaimedError,
        CancelledError,
        CorrectedError,
        DamageError,
        DemandNotMetError,
        DeniedError,
        DifferentRequestError,
        DigestMismatchError,
        ExpiredError,
        FrozenError,
        InDoubtError,
        InputError,
        LedgerError,
        NewerSchemaError,
        NoInputLockError,
        NotCoveredError,
        NotExtendableError,
        RedactedError,
        RefusalError,
        RejectedError,
        ReopenedError,
        ReplyError,
        SessionClosedError,
        SetupError,
        StaleReplyError,
        StillPendingError,
        StoreError,
        UnknownGrantError,
        UnknownRequestError,
        UnknownSessionError,
        WiderError,
    )
    from ledger.core.questions import Runner, claim_id_of
    from ledger.core.timeouts import Timeouts
    from ledger.stores.durability import Durability

__all__ = [
    "AlreadyAnsweredError",
    "AlreadyClaimedError",
    "Approved",
    "CancelledError",
    "Claim",
    "ClientConnection",
    "CorrectedError",
    "DamageError",
    "DemandNotMetError",
    "DeniedError",
    "DifferentRequestError",
    "DigestMismatchError",
    "Durability",
    "ExpiredError",
    "FrozenError",
    "InDoubtError",
    "InputError",
    "Ledger",
    "LedgerError",
    "NewerSchemaError",
    "NoInputLockError",
    "NotCoveredError",
    "NotExtendableError",
    "Pending",
    "Permit",
    "RedactedError",
    "RefusalError",
    "RejectedError",
    "ReopenedError",
    "ReplyError",
    "Result",
    "Runner",
    "Session",
    "SessionClosedError",
    "SetupError",
    "StaleReplyError",
    "StillPendingError",
    "StoreError",
    "SyncClientConnection",
    "SyncLedger",
    "SyncSession",
    "Timeouts",
    "UnknownGrantError",
    "UnknownRequestError",
    "UnknownSessionError",
    "WiderError",
    "claim_id_of",
]

_MODULES = {
    "ledger.client.claims": ("Claim", "Permit"),
    "ledger.client.ledger": ("Ledger",),
    "ledger.client.results": ("Approved", "Pending", "Result"),
    "ledger.client.session": ("ClientConnection", "Session"),
    "ledger.client.sync": ("SyncClientConnection", "SyncLedger", "SyncSession"),
    "ledger.core.questions": ("Runner", "claim_id_of"),
    "ledger.core.timeouts": ("Timeouts",),
    "ledger.stores.durability": ("Durability",),
}
"""The modules of the public names; every other one is an error. Each is imported when one of its names is used first."""

_MODULE_OF = dict.fromkeys(__all__, "ledger.core.errors")
_MODULE_OF |= {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a checker would accept every name

    def __getattr__(name: str) -> object:
        from importlib import import_module  # noqa: PLC0415 - only where a name is used first

        if name not in _MODULE_OF:
            raise AttributeError(f"module `ledger` has no attribute `{name}`")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
