"""An event-sourced permission ledger for AI agents: requests, answers, deadlines, grants, history.

async with Ledger.connect("redis://localhost") as ledger:
    session = await ledger.session("ses_1", project="shop", rules=[…])
    await session.ask("bash", ["git push"], always=["git push *"])
"""

from ledger.client.connection import ClientConnection
from ledger.client.ledger import Ledger
from ledger.client.results import Approved, Pending, Result
from ledger.client.session import Session
from ledger.client.sync import SyncClientConnection, SyncLedger, SyncSession
from ledger.core.errors import (
    AlreadyAnsweredError,
    CancelledError,
    CorrectedError,
    DamageError,
    DemandNotMetError,
    DeniedError,
    DifferentRequestError,
    DigestMismatchError,
    ExpiredError,
    InDoubtError,
    InputError,
    LedgerError,
    NewerSchemaError,
    NoInputLockError,
    RefusalError,
    RejectedError,
    ReplyError,
    SessionClosedError,
    SetupError,
    StaleReplyError,
    StoreError,
    UnknownGrantError,
    UnknownRequestError,
    UnknownSessionError,
)
from ledger.core.timeouts import Timeouts
from ledger.stores.durability import Durability

__all__ = [
    "AlreadyAnsweredError",
    "Approved",
    "CancelledError",
    "ClientConnection",
    "CorrectedError",
    "DamageError",
    "DemandNotMetError",
    "DeniedError",
    "DifferentRequestError",
    "DigestMismatchError",
    "Durability",
    "ExpiredError",
    "InDoubtError",
    "InputError",
    "Ledger",
    "LedgerError",
    "NewerSchemaError",
    "NoInputLockError",
    "Pending",
    "RefusalError",
    "RejectedError",
    "ReplyError",
    "Result",
    "Session",
    "SessionClosedError",
    "SetupError",
    "StaleReplyError",
    "StoreError",
    "SyncClientConnection",
    "SyncLedger",
    "SyncSession",
    "Timeouts",
    "UnknownGrantError",
    "UnknownRequestError",
    "UnknownSessionError",
]
