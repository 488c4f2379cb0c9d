"""An event-sourced permission ledger for AI agents: requests, answers, deadlines, grants, history.

async with Ledger.connect("redis://localhost") as ledger:
    session = await ledger.session("ses_1", project="shop", rules=[…])
    await session.ask("bash", ["git push"], always=["git push *"])
"""

from ledger.client.claims import Claim
from ledger.client.connection import ClientConnection
from ledger.client.ledger import Ledger
from ledger.client.permits import Permit
from ledger.client.results import Approved, Pending, Result
from ledger.client.session import Session
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
from ledger.core.runners import Runner, claim_id_of
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
