"""Masks in what a session's commands bring from outside, before anything of it is written. Pure.

An ask is judged by its own bytes, and only its record has masks (`masked_record`). Other commands carry texts that
nothing is judged by: they have masks from the beginning (`masked_command`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.errors import InputError
from ledger.core.events import Asked, AskedDetail, Event, Reopened, ReopenedDetail
from ledger.core.policy import Evaluation
from ledger.core.questions import Question
from ledger.masks.masking import (
    NOTHING_ELSE,
    Masks,
    first_kind,
    masked_input,
    may_need_masks,
    require_no_secret,
    secrets_of,
    with_masked_reason,
)
from ledger.masks.own_input import holds_mask
from ledger.session.commands import (
    Ask,
    Cancel,
    ClaimCall,
    Close,
    Command,
    GivenReply,
    MakeGrant,
    NoteNotification,
    NoteToolFinished,
    Recheck,
    ReleaseClaim,
    Repeat,
    Reply,
    Revoke,
)
from ledger.session.state import SessionState
from ledger.session.would_run.members import BEHIND

NOT_REMEMBERED: Final = "a call with a secret in it is not remembered, because its grant would hold the secret"


_CLEAN_COUNT: Final = 512

_CLEAN: Final[dict[tuple[int, int], tuple[Question, Evaluation | None]]] = {}
"""Questions and their evaluations that need no masks, by identity; held, so that no other has the same one.

Both are kept elsewhere for calls that agents repeat, and such a call has the same objects again.
"""


def masked_command(command: Command, masks: Masks) -> Command:
    """Return a command with masks in its free texts. Raises InputError for a secret that must not be there."""
    step = _STEPS.get(type(command))
    return command if step is None else step(command, masks)


def masked_record(state: SessionState, events: tuple[Event, ...], command: Command, masks: Masks) -> tuple[Event, ...]:
    """Return the events of a command with masks in the record of what was asked."""
    if type(command) not in _RECORDING:
        return events
    return tuple([_masked_event(state, event, command, masks) for event in events])


def _masked_event(state: SessionState, event: Event, command: Any, masks: Masks) -> Event:
    if isinstance(event, Asked) and event.detail is not None:
        detail = event.detail
        if (id(command.question), id(detail.evaluation)) not in _CLEAN or not _rests_on_both(command, detail):
            detail = masked_ask(detail, masks)
            if detail is event.detail:
                _keep_clean(command, detail)
        # The digest of content with a secret is keyed, so that no reader of the log can test a guess.
        return event if detail is event.detail else replace(event, digest=masks.digest(event.digest), detail=detail)
    if isinstance(event, Reopened) and event.detail is not None:
        known = state.find(event.request_id)
        # A question that was read from the log has its masks already.
        is_from_log = known is not None and command.question.digest in ("", known.digest)
        reopening = _masked_reopening(event.detail, masks, keeps=is_from_log)
        return event if reopening is event.detail else replace(event, detail=reopening)
    return event


def _keep_clean(command: Ask, detail: AskedDetail) -> None:
    if _rests_on_both(command, detail):
        if len(_CLEAN) >= _CLEAN_COUNT:
            _CLEAN.clear()
        _CLEAN[id(command.question), id(detail.evaluation)] = (command.question, detail.evaluation)


def _rests_on_both(command: Ask, detail: AskedDetail) -> bool:
    """Return whether all texts of a record are those of its question and evaluation, and neither can change."""
    question = command.question
    is_bare = question.call.input is None and not question.metadata
    return is_bare and not (detail.opinions or detail.not_honoured or detail.still_asked or detail.offers)


def masked_ask(asked: AskedDetail, masks: Masks) -> AskedDetail:
    """Return the record of an ask with masks; the same record where it has none."""
    # A salt looks like a secret, and is one, but not one to mask.
    detail = replace(asked, salt="")
    if not may_need_masks(detail):
        return asked
    also = secrets_of(detail)
    always = _without_secrets(detail.always, also)
    offers = tuple([offer for offer in detail.offers if not _has_secret(offer.entries, also)])
    forgets = len(always) < len(detail.always) or len(offers) < len(detail.offers)
    rest: AskedDetail = masks.value(
        replace(detail, input=None, metadata={}, always=(), offers=offers, evaluation=None), also
    )
    return replace(
        rest,
        salt=asked.salt,
        always=always,
        input=masks.value(detail.input),
        metadata=_masked_metadata(detail.metadata, masks, also),
        evaluation=_masked_evaluation(detail.evaluation, masks, also, keeps=False),
        still_asked=(*rest.still_asked, NOT_REMEMBERED) if forgets else rest.still_asked,
    )


def _masked_reopening(detail: ReopenedDetail, masks: Masks, *, keeps: bool) -> ReopenedDetail:
    if not may_need_masks(detail):
        return detail
    also = secrets_of(detail)
    rest: ReopenedDetail = masks.value(replace(detail, input=None, metadata={}), also, keeps=keeps)
    return replace(
        rest,
        evaluation=_masked_evaluation(detail.evaluation, masks, also, keeps=keeps),
        input=masks.value(detail.input, keeps=keeps),
        metadata=_masked_metadata(detail.metadata, masks, also, keeps=keeps),
    )


def _masked_evaluation(
    evaluation: Evaluation | None, masks: Masks, also: Mapping[str, str], *, keeps: bool
) -> Evaluation | None:
    """Return an evaluation with masks; entries of `always` with a secret are left out."""
    if evaluation is None:
        return None
    remembered = replace(evaluation, always=_without_secrets(evaluation.always, also))
    masked: Evaluation = masks.value(remembered, also, keeps=keeps)
    return masked


def _masked_metadata(
    metadata: dict[str, Any], masks: Masks, also: Mapping[str, str], *, keeps: bool = False
) -> dict[str, Any]:
    """Return metadata with masks. An input in it is masked as in the request of its own, so that both are equal."""
    behind = metadata.get(BEHIND)
    masked: dict[str, Any] = masks.value(metadata, also, keeps=keeps)
    if isinstance(behind, Mapping) and "input" in behind:
        own = masks.value(behind["input"], keeps=keeps)
        masked = {**masked, BEHIND: {**masks.value(behind, also, keeps=keeps), "input": own}}
    return masked


def _without_secrets(entries: tuple[str, ...], also: Mapping[str, str]) -> tuple[str, ...]:
    return tuple([entry for entry in entries if not _has_secret((entry,), also)])


def _has_secret(entries: tuple[str, ...], also: Mapping[str, str]) -> bool:
    if any(secret in entry for entry in entries for secret in also):
        return True
    return first_kind(entries) is not None or holds_mask(entries)


def masked_answer(given: GivenReply, masks: Masks | None) -> GivenReply:
    """Return an answer with masks in its message. Raises InputError for a secret in its input or its patterns.

    Masks in the message stay, so that an answer is masked once: before a passkey signs it, or before it is written.
    """
    if masks is None:
        return given
    kind = None if given.updated_input is None else first_kind(given.updated_input)
    if kind is not None:
        raise InputError(
            f"the changed input has a secret in it ({kind}), and the log keeps none: change it without the secret, or "
            "reject the request with a message"
        )
    for pattern in given.patterns or ():
        require_no_secret(pattern)
    return replace(given, message=masks.value(given.message, keeps=True)) if given.message else given


def _reply(command: Reply, masks: Masks) -> Reply:
    given = masked_answer(command.given, masks)
    return command if given is command.given else replace(command, given=given)


def masked_repeat(command: Repeat, masks: Masks | None) -> Repeat:
    """Return an answer to a settled request with masks, as the one that settled it has them. Errors as `masked_answer`."""
    return replace(command, given=masked_answer(command.given, masks))


def _grant(command: MakeGrant, masks: Masks) -> MakeGrant:
    require_no_secret(command.pattern)
    made: MakeGrant = with_masked_reason(command, masks)
    return made


def _tool_finished(command: NoteToolFinished, masks: Masks) -> NoteToolFinished:
    title, output = command.title and masks.text(command.title), command.output and masks.text(command.output)
    return replace(command, input=masked_input(command.input, masks), title=title, output=output, masks=masks)


def _notification(command: NoteNotification, masks: Masks) -> NoteNotification:
    if not command.text and not command.target:
        return command
    # The text is that of a request in the log, whose masks stay; a target is the address of a service.
    text = None if command.text is None else masks.value(command.text, NOTHING_ELSE, keeps=True)
    return replace(command, text=text, target=None if command.target is None else masks.text(command.target))


_RECORDING: Final = frozenset((Ask, Recheck, ClaimCall))

_STEPS: Final[dict[type, Callable[[Any, Masks], Any]]] = {
    **dict.fromkeys(_RECORDING, lambda command, masks: replace(command, masks=masks)),
    ReleaseClaim: with_masked_reason,
    Reply: _reply,
    Cancel: with_masked_reason,
    Close: with_masked_reason,
    Revoke: with_masked_reason,
    MakeGrant: _grant,
    NoteToolFinished: _tool_finished,
    NoteNotification: _notification,
}
