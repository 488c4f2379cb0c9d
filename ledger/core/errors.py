"""Every error that this package raises, with its code and the agent's next action (`docs/reference/errors.md`)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

AgentAction = Literal["stop", "continue"]


class LedgerError(Exception):
    """Root of all errors of the ledger. `data` has the facts of the text for programs, as JSON values."""

    code: ClassVar[str] = "LEDGER"
    next_action: ClassVar[AgentAction] = "continue"
    """The asking agent's next action where `data` names none."""

    def __init__(self, text: str, **data: Any) -> None:
        super().__init__(text)
        self.text = text
        self.data = data

    @property
    def request_id(self) -> str | None:
        value = self.data.get("request_id")
        return value if isinstance(value, str) else None

    @property
    def session(self) -> str | None:
        value = self.data.get("session")
        if isinstance(value, str):
            return value
        # Errors of a stream have its name; a session's is `session:ID`.
        kind, _, stream_of = str(self.data.get("stream", "")).partition(":")
        return stream_of if kind == "session" else None

    @property
    def reasons(self) -> list[Any]:
        """Return the reasons: rules for a denial, otherwise the error's own facts."""
        return list(self.data.get("reasons", ()))

    @property
    def agent(self) -> AgentAction:
        """Return the asking agent's next action; unless it must stop, it continues without the tool."""
        return "stop" if self.data.get("agent", self.next_action) == "stop" else "continue"

    def as_json(self) -> dict[str, Any]:
        """Return one JSON object, the documented members first."""
        known = ("request_id", "session", "reasons", "agent")
        rest = {name: value for name, value in self.data.items() if name not in known}
        return {
            "code": self.code,
            "error": self.text,
            "request_id": self.request_id,
            "session": self.session,
            "reasons": self.reasons,
            "agent": self.agent,
            **rest,
        }


class InputError(LedgerError):
    """Something handed in is malformed, oversized or unknown."""

    code = "INPUT"


class EventSizeError(InputError):
    """An event that is too large to be written, whatever it rests on."""


class DifferentRequestError(InputError):
    """The request id is taken by a request with another content."""

    code = "DIFFERENT_REQUEST"


class OperandsWantedError(InputError):
    """The call executes files that were not hashed; `data["wanted"]` names them."""

    code = "OPERANDS_WANTED"


class OnHoldError(InputError):
    """A legal hold forbids to redact something; `data` says who placed it (`by`), when (`at_ms`) and why."""

    code = "ON_HOLD"


class MissingExtraError(InputError):
    """A package of an extra is not installed; `data` names the extra."""

    code = "MISSING_EXTRA"


class RefusalError(LedgerError):
    """The tool call may not run."""

    code = "REFUSED"


class DeniedError(RefusalError):
    """A rule, or a decider after the rules, denies the call."""

    code = "DENIED"


class RejectedError(RefusalError):
    """A person rejected the call."""

    code = "REJECTED"


class CorrectedError(RejectedError):
    """A person rejected the call and said what to do instead."""

    code = "CORRECTED"


class ExpiredError(RefusalError):
    """Nobody answered before the deadline."""

    code = "EXPIRED"


class CancelledError(RefusalError):
    """The request was withdrawn: the asker gave up or died, or the session was closed."""

    code = "CANCELLED"


class StillPendingError(RefusalError):
    """Nobody has answered the request yet, so it cannot be claimed."""

    code = "STILL_PENDING"


class ReopenedError(RefusalError):
    """The grounds of an allow changed before the call ran; `data` has the `reason` and the new `round`."""

    code = "REOPENED"


class AlreadyClaimedError(RefusalError):
    """Another runner may run the call, or it has run or may have run; `data` says who (`by`, `runner`) and when."""

    code = "ALREADY_CLAIMED"
    next_action = "stop"


class FrozenError(RefusalError):
    """Nothing may run here; `data` says who froze it, when and why."""

    code = "FROZEN"
    next_action = "stop"


class ReplyError(LedgerError):
    """An answer that does not count."""

    code = "REPLY"


class UnknownRequestError(ReplyError):
    """No request has this id."""

    code = "UNKNOWN_REQUEST"


class AlreadyAnsweredError(ReplyError):
    """Another answer was first; `data` says who, when and what."""

    code = "ALREADY_ANSWERED"


class StaleReplyError(ReplyError):
    """The request had expired when the answer came."""

    code = "PERMISSION_STALE"


class NoInputLockError(ReplyError):
    """This session takes answers from the holder of the input lock only."""

    code = "NO_INPUT_LOCK"


class NotExtendableError(ReplyError):
    """The deadline of the request cannot be moved further; `data` says how far it could be."""

    code = "NOT_EXTENDABLE"


class DigestMismatchError(ReplyError):
    """The answer was given to another request than the pending one."""

    code = "DIGEST_MISMATCH"


class PasskeyRefusedError(ReplyError):
    """The signature is not by one of the person's passkeys over this answer, or was used before, or is too late."""

    code = "PASSKEY_REFUSED"


class EditDeniedError(ReplyError):
    """A rule denies the input with which the person replaced the tool's; the request stays pending."""

    code = "EDIT_DENIED"


class WiderError(ReplyError):
    """A pattern may allow more than was offered, and who answers may not grant that; the request stays pending."""

    code = "WIDER"


class NotCoveredError(ReplyError):
    """The given patterns would not allow the request itself; it stays pending."""

    code = "NOT_COVERED"


class DemandNotMetError(ReplyError):
    """A rule sets a condition on the answer that this one does not meet; the request stays pending."""

    code = "DEMAND_NOT_MET"


class PasskeyRequiredError(DemandNotMetError):
    """A demand requires that one of the person's passkeys signs this answer."""

    code = "PASSKEY_REQUIRED"


class RedactedError(LedgerError):
    """The content of a request, or the rules of a session, were taken out of the log."""

    code = "REDACTED"


class SealedError(LedgerError):
    """The entries of a stream are in an archive: `key` is the stream, `seal` the place (`ledger.stores.sealed`)."""

    code = "SEALED"

    def __init__(self, text: str, *, key: Any = None, seal: Any = None, **data: Any) -> None:
        super().__init__(text, **data)
        self.key = key
        self.seal = seal


class UnknownGrantError(LedgerError):
    """No grant has this id."""

    code = "UNKNOWN_GRANT"


class SessionClosedError(LedgerError):
    """The session was closed."""

    code = "SESSION_CLOSED"


class UnknownSessionError(LedgerError):
    """No session has this id."""

    code = "UNKNOWN_SESSION"


class UnknownTokenError(LedgerError):
    """No access token has this id, or it is used up."""

    code = "UNKNOWN_TOKEN"


class UnknownPasskeyError(LedgerError):
    """No person has registered this passkey, or it was removed."""

    code = "UNKNOWN_PASSKEY"


class UnknownDeviceError(LedgerError):
    """No person receives push messages on this device, or it was removed."""

    code = "UNKNOWN_DEVICE"


class UnauthorizedError(LedgerError):
    """The caller could not be authenticated."""

    code = "UNAUTHORIZED"


class StoreError(LedgerError):
    """The ledger's server cannot be reached, or replies in an unexpected way."""

    code = "UNREACHABLE"


class InDoubtError(StoreError):
    """A write was sent and no reply came: it may or may not be in the log. Never treated as an allow."""

    code = "IN_DOUBT"


class SetupError(StoreError):
    """The server or the deployment is unfit to hold a ledger."""

    code = "SETUP"


class ArchiveError(LedgerError):
    """The archive of sealed sessions cannot be reached, or cannot be used."""

    code = "ARCHIVE"


class DamageError(LedgerError):
    """A stream is not what the ledger wrote; nothing is appended to it."""

    code = "DAMAGED"


class NewerSchemaError(DamageError):
    """A stream holds events of a newer version of this software."""

    code = "NEWER_SCHEMA"


class RulesUnreadableError(DamageError):
    """The stream of the rules that a session names is missing, damaged or newer: nothing is judged there."""

    code = "RULES_UNREADABLE"
