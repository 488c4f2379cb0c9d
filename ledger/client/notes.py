"""The part of `Session` that records facts besides its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ledger.client.grounds import Grounds
from ledger.core.events import Actor
from ledger.core.ids import check_id
from ledger.core.requests import Question, check_message, check_name, check_tool_input, in_folder
from ledger.log.stream import Stream
from ledger.session.commands import NoteNotification, NoteToolFinished
from ledger.session.state import Request, SessionState

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger


class Noted(Protocol):
    """The members of a session that notes use."""

    _ledger: Ledger
    _stream: Stream[SessionState]
    _grounds: Grounds


class Notes:
    """Records of finished tool calls and of notifications."""

    async def note_tool_finished(
        self: Noted,
        request_id: str | None = None,
        *,
        call_id: str | None = None,
        ok: bool = True,
        ran: Question | None = None,
        tool_input: Mapping[str, Any] | None = None,
        title: str | None = None,
        output: str | None = None,
        key: str | None = None,
        actor: Actor | str | None = None,
    ) -> None:
        """Record a finished tool call; `ran`, or `tool_input`, is compared with the request.

        A repeated `key` records nothing.
        """
        command = NoteToolFinished(
            actor=self._ledger.actor(actor, "agent"),
            request_id=request_id,
            call_id=None if call_id is None else check_id(call_id, "call id"),
            ok=ok,
            digest=None if ran is None else _digest_of(ran, (await self._grounds.folded()).find(request_id or "")),
            input=ran.call.input if ran else None if tool_input is None else check_tool_input(tool_input),
            title=check_message(title, "title"),
            output=check_message(output, "output"),
            key=None if key is None else check_id(key, "key"),
        )
        await self._stream.submit(command)

    async def note_notification(
        self: Noted,
        request_id: str,
        service: str,
        result: Any,
        *,
        person: str | None = None,
        step: int | None = None,
        message_id: str | None = None,
        text: str | None = None,
        target: str | None = None,
    ) -> None:
        """Record that a notification was sent, failed, or was withdrawn."""
        command = NoteNotification(
            actor=self._ledger.actor(None, "system"),
            request_id=request_id,
            service=check_name(service, "notification service"),
            result=result,
            person=None if person is None else check_name(person, "person"),
            step=step,
            message_id=None if message_id is None else check_id(message_id, "message id"),
            text=check_message(text),
            target=check_message(target, "target"),
        )
        await self._stream.submit(command)


def _digest_of(ran: Question, asked: Request | None) -> str:
    """Return the digest of the call that ran, in the request's folder if it names none."""
    if asked is None or ran.digest == asked.digest:
        return ran.digest
    return in_folder(ran, asked.cwd).digest
