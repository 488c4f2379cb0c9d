"""The state of each of OpenCode's requests, and the actions that follow from events and the ledger's outcomes. No I/O, no clock.

OpenCode keeps requests in memory alone, announces them once, and does not announce every end: a request whose session
was aborted stays in its list for ever (a ghost). It also derives answers from answers: a reject rejects everything that
the session has pending, an always releases whatever it covers. So every request has a stage here, and each event is
read against it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from workers.bridges.opencode.shapes import (
    Answers,
    Event,
    ReplyWord,
    RequestAsked,
    RequestReplied,
    SessionDeleted,
    SessionIdle,
    ShapeError,
    ToolEnded,
)


class OpencodeVerdict(NamedTuple):
    """`reply` is `once` or `reject`, never `always`: OpenCode would remember it and not ask us again.

    With a message the agent's turn goes on, without one it ends. `because_of` is the request whose reply settled this
    one as well. `nobody_waits`: it was withdrawn because the call that asked is over. `answers` are to a question;
    `is_opencodes`: a rule lets OpenCode ask it, and it has no answer so far.
    """

    reply: ReplyWord
    message: str | None = None
    because_of: str | None = None
    nobody_waits: bool = False
    answers: Answers | None = None
    is_opencodes: bool = False


def verdict_of(row: Mapping[str, Any]) -> OpencodeVerdict:
    """Return the verdict of a settled request. Only the outcome `allowed`, with the input as asked, lets it run."""
    cause = row.get("cause")
    because_of = cause.get("request_id") if isinstance(cause, Mapping) else None
    if row.get("outcome") == "allowed":
        changed = row.get("updated_input")
        if changed is None:
            return OpencodeVerdict("once", None, because_of)
        # OpenCode cannot run another input than the one it asked for.
        wanted = json.dumps(changed, ensure_ascii=False)
        return OpencodeVerdict("reject", f"a person allowed this with another input; call the tool again with {wanted}")
    if row.get("cancel_cause") in ("asker_gave_up", "asker_died"):
        return OpencodeVerdict("reject", row.get("message"), nobody_waits=True)
    if row.get("outcome") == "corrected" and isinstance(row.get("feedback"), str):
        return OpencodeVerdict("reject", row["feedback"], because_of)
    if row.get("agent") == "stop":
        return OpencodeVerdict("reject", None, because_of)
    return OpencodeVerdict("reject", row.get("message") or f"the request was {row.get('outcome')}", because_of)


Cause = Literal["asker_gave_up", "asker_died", "withdrawn"]


class JudgeRequest(NamedTuple):
    """Ask the gateway, and wait for the outcome."""

    asked: RequestAsked


class AnswerRequest(NamedTuple):
    """Answer a request at OpenCode; an allowed question with its `answers`."""

    asked: RequestAsked
    reply: ReplyWord
    message: str | None = None
    answers: Answers | None = None

    @property
    def heard_as(self) -> ReplyWord:
        """Return OpenCode's reading of it: a question refused with a message counts as answered there."""
        return "once" if self.message and self.asked.questions else self.reply


class Withdraw(NamedTuple):
    """Withdraw a request at the gateway."""

    session: str
    request_id: str
    cause: Cause
    reason: str


class RecordReply(NamedTuple):
    """Record a person's answer in OpenCode itself; `reply` is the part that the ledger is to remember.

    `input` is a question's, with the chosen answers.
    """

    session: str
    request_id: str
    reply: Literal["once", "session", "reject"]
    said: ReplyWord
    input: dict[str, Any] | None = None


class Note(NamedTuple):
    """Note that a tool call which was asked about has ended."""

    session: str
    request_id: str
    ok: bool
    title: str | None


class LookAtSession(NamedTuple):
    """Check that the session is still busy; if it is not, these requests of it are ghosts."""

    session: str
    directory: str | None
    request_ids: tuple[str, ...]


class CloseSession(NamedTuple):
    session: str


class Tell(NamedTuple):
    """Tell the person who runs the bridge."""

    text: str


Action = JudgeRequest | AnswerRequest | Withdraw | RecordReply | Note | LookAtSession | CloseSession | Tell


def verdict_of_question(asked: RequestAsked, row: Mapping[str, Any]) -> OpencodeVerdict:
    """Return the verdict of a settled question. Only a person answers one: a rule's allow only lets OpenCode ask it."""
    if row.get("outcome") != "allowed":
        return verdict_of(row)
    if row.get("reply") is None or row.get("cause") is not None:
        return OpencodeVerdict("once", is_opencodes=True)
    return OpencodeVerdict("once", answers=answers_in(asked, row.get("updated_input")))


def answers_in(asked: RequestAsked, chosen: object) -> Answers:
    """Return a person's answers, question by question; empty for an unreadable one."""
    given = chosen.get("answers") if isinstance(chosen, Mapping) else None
    if isinstance(given, Mapping):
        return tuple(_labels(given.get(one["question"])) for one in asked.questions)
    listed = given if isinstance(given, list) else []
    return tuple(_labels(listed[index] if index < len(listed) else None) for index in range(len(asked.questions)))


def with_answers(asked: RequestAsked, answers: Answers) -> dict[str, Any]:
    """Return the input of a question with the answers given in OpenCode itself, in the form of the ledger's own."""
    given = {
        one["question"]: list(labels) if one.get("multiple") is True or len(labels) != 1 else labels[0]
        for one, labels in zip(asked.questions, answers, strict=False)
    }
    return {"questions": asked.questions, "answers": given}


def said_to_opencode(answer: AnswerRequest) -> Answers | None:
    """Return OpenCode's answers, one for each question; None dismisses the question, which ends the turn.

    OpenCode takes no reason with a dismissal. So a refusal with a message is sent as the answer, which the agent reads.
    """
    count = len(answer.asked.questions)
    if answer.reply != "reject":
        return answer.answers or ((),) * count
    return ((f"Not answered: {answer.message}",),) * count if answer.message and count else None


def _labels(one: object) -> tuple[str, ...]:
    if isinstance(one, str):
        return (one,) if one else ()
    return tuple(label for label in one if isinstance(label, str) and label) if isinstance(one, list) else ()


KNOWN_COUNT: Final = 10_000
"""The number of ended requests remembered, so that a ghost in a list is not taken for a new request."""

HTTP_OK: Final = 200
HTTP_NOT_FOUND: Final = 404

Stage = Literal["judging", "behind", "answering", "answered", "left", "over"]


@dataclass
class TrackedRequest:
    """A request and its stage.

    `behind`: refused together with another one, whose answer makes OpenCode refuse this one by itself. `drawn_from`:
    another request of its session was answered, so OpenCode may derive an answer to this one from that.
    `drawn_from_ours`: that other answer was ours. `may_run`: it was allowed, and its tool call has not ended yet.
    `lost`: it counted as ended with OpenCode's process. `left`: a question that only OpenCode's own prompt answers.
    """

    asked: RequestAsked
    stage: Stage = "judging"
    answer: AnswerRequest | None = None
    behind: str | None = None
    drawn_from: str | None = None
    drawn_from_ours: bool = False
    may_run: bool = False
    lost: bool = False


class RequestTracker:
    """All requests of one OpenCode server. Every method returns the actions due now, in order."""

    def __init__(self) -> None:
        self._held: dict[str, TrackedRequest] = {}

    @property
    def waiting(self) -> frozenset[str]:
        """The ids of the requests that OpenCode waits for, by our knowledge."""
        return frozenset(one for one, held in self._held.items() if held.stage != "over")

    def directories(self) -> set[str | None]:
        return {held.asked.directory for held in self._held.values() if held.stage != "over"}

    # --- OpenCode's events

    def happened(self, event: Event) -> list[Action]:
        match event:
            case RequestAsked():
                return self._asked(event)
            case RequestReplied():
                return self._replied(event)
            case ToolEnded():
                return self._tool_ended(event)
            case SessionIdle(session):
                return self._look(session)
            case SessionDeleted(session):
                ids = [held.asked.request_id for held in self._open(session)]
                return [*self.found_idle(ids), CloseSession(session)]

    def misread(self, error: ShapeError, directory: str | None) -> list[Action]:
        """Refuse a request that cannot be read, and so cannot be judged, if its id could be read."""
        if error.session is None or error.request_id is None or error.request_id in self._held:
            return [Tell(f"opencode sent an event that cannot be read: {error}")]
        asked = RequestAsked(error.request_id, error.session, "?", (), (), {}, directory)
        if error.is_question:
            asked = asked._replace(input={"questions": []})
        held = self._remember(asked)
        return [
            Tell(f"refused `{error.request_id}`: {error}"),
            *self._answer(held, "reject", f"cannot be judged: {error}"),
        ]

    def _asked(self, asked: RequestAsked) -> list[Action]:
        if asked.request_id in self._held:
            return []
        self._remember(asked)
        return [JudgeRequest(asked)]

    def _replied(self, event: RequestReplied) -> list[Action]:
        held = self._held.get(event.request_id)
        if held is None or held.stage == "over":
            return []
        stage, held.stage = held.stage, "over"
        held.may_run = event.reply != "reject"
        if stage in ("answering", "answered"):
            assert held.answer is not None
            self._draw_from(held, event.reply, ours=event.reply == held.answer.reply)
            return self._unlike_ours(held, held.answer, event.reply)
        if stage in ("behind", "left"):
            return []
        if event.reply == "reject" and held.drawn_from is not None and held.drawn_from_ours:
            reason = f"opencode refused it together with `{held.drawn_from}`"
            return [Withdraw(event.session, event.request_id, "withdrawn", reason)]
        remembered = _remembered(event.reply, held)
        self._draw_from(held, event.reply, ours=False)
        chosen = None if event.answers is None else with_answers(held.asked, event.answers)
        return [RecordReply(event.session, event.request_id, remembered, event.reply, chosen)]

    def _draw_from(self, held: TrackedRequest, reply: ReplyWord, *, ours: bool) -> None:
        """Note that OpenCode may derive answers to the session's other requests from this one."""
        if reply == "once" or held.asked.is_question:
            return
        for other in self._open(held.asked.session):
            if other.drawn_from is None and not other.asked.is_question:
                other.drawn_from, other.drawn_from_ours = held.asked.request_id, ours

    def _unlike_ours(self, held: TrackedRequest, answer: AnswerRequest, reply: ReplyWord) -> list[Action]:
        if (reply == "reject") == (answer.heard_as == "reject"):
            return []
        did = "was allowed to run" if reply != "reject" else "was refused"
        return [
            Tell(
                f"`{held.asked.request_id}` {did} in opencode itself ({reply}) before the ledger's answer arrived; "
                "the ledger holds the other outcome"
            )
        ]

    def _tool_ended(self, event: ToolEnded) -> list[Action]:
        of_call = [
            held
            for held in self._held.values()
            if held.asked.call_id == event.call_id and held.asked.session == event.session
        ]
        actions = [action for held in of_call if held.stage != "over" for action in self._ghost(held)]
        # A call may ask twice (the folder, then the command); the last one is the call itself.
        ran = next((held for held in reversed(of_call) if held.may_run), None)
        if ran is not None:
            ran.may_run = False
            actions.append(Note(event.session, ran.asked.request_id, event.ok, event.title))
        return actions

    def _look(self, session: str) -> list[Action]:
        by_directory: dict[str | None, list[str]] = {}
        for held in self._open(session):
            by_directory.setdefault(held.asked.directory, []).append(held.asked.request_id)
        return [LookAtSession(session, directory, tuple(ids)) for directory, ids in by_directory.items()]

    def found_idle(self, request_ids: Iterable[str]) -> list[Action]:
        """End requests whose session is idle: nothing waits for them any more, whatever the list holds."""
        found = (self._held.get(one) for one in request_ids)
        return [action for held in found if held is not None for action in self._ghost(held)]

    def _ghost(self, held: TrackedRequest) -> list[Action]:
        return self._over(held, "asker_gave_up", "the agent was stopped while it waited")

    def listed(
        self,
        directory: str | None,
        requests: Iterable[RequestAsked],
        at_work: Collection[str] | None,
        known: Collection[str],
        ended: Collection[str] = (),
    ) -> list[Action]:
        """Compare with a directory's list, requested when `known` were pending; called after each (re)connection.

        `at_work` are the busy sessions, None if OpenCode did not answer; `ended` the requests whose tool calls are
        over.
        """
        actions: list[Action] = []
        there = {one.request_id: one for one in requests}
        for request_id in known:
            held = self._held.get(request_id)
            if held is not None and held.asked.directory == directory and request_id not in there:
                actions += self._gone(held)
        for asked in there.values():
            held = self._held.get(asked.request_id)
            if asked.request_id in ended or (at_work is not None and asked.session not in at_work):
                actions += self._ghost(held or self._remember(asked, "over"))
            elif held is None:
                actions += self._asked(asked)
            elif held.stage == "answering" and held.answer is not None:
                actions.append(held.answer)
            elif held.lost:
                held.lost = False
                actions += self._answer(held, "reject", "the request was withdrawn while opencode was away; ask again")
        return actions

    def _gone(self, held: TrackedRequest) -> list[Action]:
        reason = "opencode no longer has it: its process ended, or it was answered there unseen"
        return self._over(held, "asker_died", reason)

    def _over(self, held: TrackedRequest, cause: Cause, reason: str) -> list[Action]:
        """End a request, and withdraw it if it waits for a verdict."""
        stage, held.stage = held.stage, "over"
        return [Withdraw(held.asked.session, held.asked.request_id, cause, reason)] if stage == "judging" else []

    def died(self) -> list[Action]:
        """End all requests that wait for a verdict: OpenCode's process has ended."""
        actions: list[Action] = []
        for held in self._held.values():
            if held.stage == "judging":
                actions += self._gone(held)
                held.lost = True
        return actions

    def left_over(self, session: str, request_id: str) -> list[Action]:
        """Withdraw a request that an earlier bridge left pending, unless OpenCode still waits for it."""
        held = self._held.get(request_id)
        if held is not None and held.stage != "over":
            return []
        return [Withdraw(session, request_id, "asker_died", "opencode no longer has it")]

    # --- the gateway's answers

    def judged(self, request_id: str, verdict: OpencodeVerdict) -> list[Action]:
        held = self._held.get(request_id)
        if held is None or held.stage != "judging":
            return []
        if verdict.nobody_waits:
            # Refusing a ghost would make OpenCode refuse the session's current requests.
            held.stage = "over"
            return []
        if verdict.is_opencodes:
            held.stage = "left"
            return [
                Tell(f"`{request_id}` is a question that a rule lets opencode ask; its own prompt has to answer it")
            ]
        if verdict.reply == "reject" and verdict.because_of is not None and self._is_open(verdict.because_of, held):
            # Answered first, this one would take the feedback of the other one with it.
            held.stage, held.behind = "behind", verdict.because_of
            held.answer = AnswerRequest(held.asked, "reject", verdict.message)
            return []
        return self._answer(held, verdict.reply, verdict.message, verdict.answers)

    def refused(self, request_id: str, message: str, *, may_be_pending: bool) -> list[Action]:
        """Reject a request that the gateway did not judge; never allow it."""
        held = self._held.get(request_id)
        if held is None or held.stage != "judging":
            return []
        actions = self._answer(held, "reject", message)
        if may_be_pending:
            reason = "the bridge could not reach the gateway, and refused it"
            actions.append(Withdraw(held.asked.session, request_id, "asker_gave_up", reason))
        return actions

    def _answer(
        self, held: TrackedRequest, reply: ReplyWord, message: str | None, answers: Answers | None = None
    ) -> list[Action]:
        held.stage = "answering"
        held.answer = AnswerRequest(held.asked, reply, message, answers)
        return [held.answer]

    # --- the fate of our answers

    def answered(self, request_id: str, status: int | None) -> list[Action]:
        """Take the HTTP status of an answer; None if it was not delivered: the next list shows the request again."""
        held = self._held.get(request_id)
        if held is None or held.stage != "answering":
            return []
        if status == HTTP_OK:
            held.stage = "answered"
            return []
        if status == HTTP_NOT_FOUND:
            held.stage = "over"
            return self._go_ahead(request_id)
        if status is None:
            return []
        held.stage = "over"
        return [
            Tell(f"opencode did not take the answer to `{request_id}`: status {status}"),
            *self._go_ahead(request_id),
        ]

    def _go_ahead(self, request_id: str) -> list[Action]:
        """Answer the requests behind one whose answer OpenCode did not accept."""
        actions: list[Action] = []
        for held in self._held.values():
            if held.stage == "behind" and held.behind == request_id and held.answer is not None:
                actions += self._answer(held, "reject", held.answer.message)
        return actions

    # --- the requests

    def _is_open(self, request_id: str, beside: TrackedRequest) -> bool:
        """Return whether OpenCode will refuse the request `beside` it by itself once it gets the answer to this one."""
        held = self._held.get(request_id)
        if held is None or held.asked.session != beside.asked.session:
            return False
        if held.asked.is_question or beside.asked.is_question:
            return False
        return held.stage in ("judging", "answering")

    def _open(self, session: str) -> list[TrackedRequest]:
        return [one for one in self._held.values() if one.asked.session == session and one.stage != "over"]

    def _remember(self, asked: RequestAsked, stage: Stage = "judging") -> TrackedRequest:
        if len(self._held) >= KNOWN_COUNT:
            over = [one for one, held in self._held.items() if held.stage == "over"]
            for one in over[: max(1, KNOWN_COUNT // 10)]:
                del self._held[one]
        held = self._held[asked.request_id] = TrackedRequest(asked, stage)
        return held


def _remembered(reply: ReplyWord, held: TrackedRequest) -> Literal["once", "session", "reject"]:
    """Return the reply for the ledger: an always lasts as long as the session, since OpenCode does not store it.

    An always that may have been derived from another one grants nothing of its own.
    """
    if reply == "always":
        return "once" if held.drawn_from is not None else "session"
    return reply
