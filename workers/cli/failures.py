"""An error's exit code, its line on stderr, and its hint."""

from __future__ import annotations

from typing import Final

from ledger.core import errors
from ledger.stores.embedded.errors import NoServerBinaryError
from workers.cli.exits import Exit
from workers.cli.output import talk, talk_json

_EXITS: Final[dict[type[errors.LedgerError], Exit]] = {
    errors.InputError: Exit.BAD_INPUT,
    errors.DeniedError: Exit.DENIED,
    errors.RejectedError: Exit.REJECTED,
    errors.ExpiredError: Exit.EXPIRED,
    errors.CancelledError: Exit.CANCELLED,
    errors.StillPendingError: Exit.PENDING,
    errors.ReopenedError: Exit.PENDING,
    errors.AlreadyClaimedError: Exit.CLAIMED,
    errors.FrozenError: Exit.FROZEN,
    errors.RedactedError: Exit.BAD_INPUT,
    errors.SealedError: Exit.BAD_INPUT,
    errors.UnknownRequestError: Exit.UNKNOWN,
    errors.UnknownGrantError: Exit.UNKNOWN,
    errors.UnknownSessionError: Exit.UNKNOWN,
    errors.UnknownTokenError: Exit.UNKNOWN,
    errors.UnknownPasskeyError: Exit.UNKNOWN,
    errors.UnknownDeviceError: Exit.UNKNOWN,
    errors.AlreadyAnsweredError: Exit.ANSWERED_OTHERWISE,
    errors.StaleReplyError: Exit.EXPIRED,
    errors.NotExtendableError: Exit.BAD_INPUT,
    errors.NoInputLockError: Exit.BAD_INPUT,
    errors.UnauthorizedError: Exit.BAD_INPUT,
    errors.DemandNotMetError: Exit.BAD_INPUT,
    errors.PasskeyRefusedError: Exit.BAD_INPUT,
    errors.DigestMismatchError: Exit.BAD_INPUT,
    errors.EditDeniedError: Exit.DENIED,
    errors.WiderError: Exit.BAD_INPUT,
    errors.NotCoveredError: Exit.BAD_INPUT,
    errors.SessionClosedError: Exit.CANCELLED,
    errors.SetupError: Exit.BAD_INPUT,
    errors.StoreError: Exit.UNREACHABLE,
    errors.ArchiveError: Exit.UNREACHABLE,
    errors.NewerSchemaError: Exit.BAD_INPUT,
    errors.DamageError: Exit.FINDINGS,
    NoServerBinaryError: Exit.BAD_INPUT,
}

_HINTS: Final = {
    "UNREACHABLE": "without --url and PERMISSION_LEDGER_URL an embedded server is used",
    "IN_DOUBT": "ask again with the same request id (--id): it attaches to what was written",
    "SETUP": "`permission-ledger doctor` says what the server needs",
    "UNKNOWN_REQUEST": "`permission-ledger pending` lists what waits",
    "UNKNOWN_SESSION": "`permission-ledger sessions` lists them",
    "UNKNOWN_TOKEN": "`permission-ledger token list` lists them",
    "UNKNOWN_GRANT": "`permission-ledger approved` lists the grants in force",
    "DIFFERENT_REQUEST": "leave --id out, or give the same permission, patterns and metadata as before",
    "REOPENED": "ask again with the same request id, or answer it: `permission-ledger pending` shows why it is back",
    "ALREADY_CLAIMED": "`show` of its session says whether it may have run; a new request id asks again",
    "DIGEST_MISMATCH": "`permission-ledger pending --json` shows what is pending, and its digest",
    "NOT_EXTENDABLE": "answer it, or have it asked again; `permission-ledger pending` shows its deadline",
    "FROZEN": "`permission-ledger freeze --list` shows it; `permission-ledger unfreeze` ends it",
    "ON_HOLD": "`permission-ledger hold --list` shows it; `unhold` lifts it",
    "SEALED": "its events are in the archive; bring the session back first",
    "SESSION_CLOSED": "go on in another session",
    "DAMAGED": "`permission-ledger verify --all` says which events are wrong",
    "RULES_UNREADABLE": "open the session again with its rules, or import them from an export",
    "NEWER_SCHEMA": "upgrade this installation of permission-ledger",
}


def exit_of(error: errors.LedgerError) -> Exit:
    """Return the exit code of the nearest class in the table; an unlisted error is our fault."""
    return next((_EXITS[known] for known in type(error).__mro__ if known in _EXITS), Exit.OUR_FAULT)


def tell(error: errors.LedgerError, *, as_json: bool = False) -> Exit:
    """Print the error on stderr: `error:` and `hint:` lines, or one JSON object; return the exit code."""
    hint = error.data.get("hint") or _HINTS.get(error.code)
    if as_json:
        talk_json({**error.as_json(), **({"hint": hint} if hint else {})})
    else:
        talk(f"error: {error.text}")
        if hint:
            talk(f"hint: {hint}")
    return exit_of(error)
