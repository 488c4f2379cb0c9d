"""OpenCode's events and lists, parsed strictly: a misread request would be judged as another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

ID_LENGTH_CHARS: Final = 200
PATTERN_COUNT: Final = 256
QUESTION_COUNT: Final = 64
QUESTION_SHOWN_CHARS: Final = 2000
"""The length of a question's text in the request's patterns; its input has all of it."""

QUESTION: Final = "question"
ENDED: Final = frozenset({"completed", "error"})

ReplyWord = Literal["once", "always", "reject"]
Answers = tuple[tuple[str, ...], ...]
REPLY_WORDS: Final[tuple[ReplyWord, ...]] = ("once", "always", "reject")


class ShapeError(Exception):
    """A value of another form than OpenCode's, with the ids if they could be read."""

    def __init__(
        self, text: str, session: str | None = None, request_id: str | None = None, *, is_question: bool = False
    ) -> None:
        super().__init__(text)
        self.session = session
        self.request_id = request_id
        self.is_question = is_question


class RequestAsked(NamedTuple):
    """A permission request of OpenCode, or a question of its `question` tool to a person.

    `directory` is the project directory whose instance asked. `input` is a question's, `{"questions": […]}`; None for a
    permission.
    """

    request_id: str
    session: str
    permission: str
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    metadata: dict[str, Any]
    directory: str | None = None
    message_id: str | None = None
    call_id: str | None = None
    input: dict[str, Any] | None = None

    @property
    def is_question(self) -> bool:
        return self.input is not None

    @property
    def questions(self) -> list[dict[str, Any]]:
        """The questions to a person, in order; empty for a permission."""
        return [] if self.input is None else self.input["questions"]


class RequestReplied(NamedTuple):
    """An answer that OpenCode accepted: ours, somebody else's, or one that it derived from another answer.

    An answered question is `once`, with `answers`: the labels or texts for each of its questions.
    """

    session: str
    request_id: str
    reply: ReplyWord
    answers: Answers | None = None


class ToolEnded(NamedTuple):
    """The end of a tool call; `ok`: it ran without an error."""

    session: str
    call_id: str
    ok: bool
    title: str | None


class SessionIdle(NamedTuple):
    """The session is idle, so no request of it waits."""

    session: str


class SessionDeleted(NamedTuple):
    session: str


Event = RequestAsked | RequestReplied | ToolEnded | SessionIdle | SessionDeleted


def read_event(event: Mapping[str, Any], directory: str | None) -> Event | None:
    """Parse an event of `/event`, or the payload of one of `/global/event`; None for events of no concern.

    Raises ShapeError.
    """
    said = event.get("properties")
    match event.get("type"):
        case "permission.asked":
            return read_request(said, directory)
        case "permission.replied":
            fields = _object(said, "permission.replied")
            reply = fields.get("reply")
            if reply not in REPLY_WORDS:
                raise ShapeError(f"`{str(reply)[:40]}` is not a reply of opencode")
            return RequestReplied(_id(fields, "sessionID"), _id(fields, "requestID"), reply)
        case "question.asked":
            return read_question(said, directory)
        case "question.replied":
            fields = _object(said, "question.replied")
            return RequestReplied(
                _id(fields, "sessionID"), _id(fields, "requestID"), "once", _answers(fields.get("answers"))
            )
        case "question.rejected":
            fields = _object(said, "question.rejected")
            return RequestReplied(_id(fields, "sessionID"), _id(fields, "requestID"), "reject")
        case "message.part.updated":
            return _tool_ended(said)
        case "session.idle":
            return SessionIdle(_id(_object(said, "session.idle"), "sessionID"))
        case "session.deleted":
            fields = _object(said, "session.deleted")
            info = fields.get("info")
            return SessionDeleted(
                _id(info if isinstance(info, Mapping) and "id" in info else fields, "id", "sessionID")
            )
        case _:
            return None


def read_request(value: object, directory: str | None) -> RequestAsked:
    """Parse a permission request of an event or a list (`opencode.md`, Request). Raises ShapeError."""
    fields = _object(value, "a permission request")
    request_id, session = _id(fields, "id"), _id(fields, "sessionID")
    try:
        permission = _text(fields.get("permission"), "permission")
        patterns, always = (_texts(fields.get(name), name) for name in ("patterns", "always"))
        metadata = _metadata(fields.get("metadata"))
        return RequestAsked(request_id, session, permission, patterns, always, metadata, directory, *_tool(fields))
    except ShapeError as error:
        raise ShapeError(str(error), session, request_id) from None


def is_question_id(request_id: str) -> bool:
    """Return whether an id is a question's: OpenCode's ids begin with their kind."""
    return request_id.startswith("que")


def read_question(value: object, directory: str | None) -> RequestAsked:
    """Parse the questions of the `question` tool, of an event or a list. Raises ShapeError."""
    fields = _object(value, "a question")
    request_id, session = _id(fields, "id"), _id(fields, "sessionID")
    try:
        questions = _questions(fields.get("questions"))
        patterns = tuple(_question_text(one)[:QUESTION_SHOWN_CHARS] for one in questions)
        metadata = {"kind": QUESTION}
        asked = RequestAsked(request_id, session, QUESTION, patterns, (), metadata, directory, *_tool(fields))
        return asked._replace(input={"questions": questions})
    except ShapeError as error:
        raise ShapeError(str(error), session, request_id, is_question=True) from None


def _questions(value: object) -> list[Any]:
    if not isinstance(value, list) or not 0 < len(value) <= QUESTION_COUNT:
        raise ShapeError(f"it does not ask one to {QUESTION_COUNT} questions")
    return value


def _question_text(value: object) -> str:
    fields = _object(value, "one of its questions")
    options = fields.get("options", [])
    if not isinstance(options, list) or len(options) > PATTERN_COUNT:
        raise ShapeError(f"the options of a question are not a list of at most {PATTERN_COUNT}")
    for option in options:
        _text(_object(option, "an option of a question").get("label"), "option's label")
    return _text(fields.get("question"), "question")


def _answers(value: object) -> Answers:
    if not isinstance(value, list) or len(value) > QUESTION_COUNT:
        raise ShapeError(f"the answers to a question are not a list of at most {QUESTION_COUNT}")
    return tuple(_texts(one, "answer") for one in value)


def _tool_ended(said: object) -> ToolEnded | None:
    part = said.get("part") if isinstance(said, Mapping) else None
    if not isinstance(part, Mapping) or part.get("type") != "tool":
        return None
    state = part.get("state")
    if not isinstance(state, Mapping) or state.get("status") not in ENDED:
        return None
    title = state.get("title")
    return ToolEnded(
        session=_id(part, "sessionID"),
        call_id=_id(part, "callID"),
        ok=state["status"] == "completed",
        title=title if isinstance(title, str) else None,
    )


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ShapeError(f"{what} is not an object")
    return value


def _id(fields: Mapping[str, Any], *names: str) -> str:
    value = next((fields[name] for name in names if name in fields), None)
    if not isinstance(value, str) or not 0 < len(value) <= ID_LENGTH_CHARS:
        raise ShapeError(f"`{names[0]}` is not an id")
    return value


def _tool(fields: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the ids of a request's message and call, if it has a tool."""
    if fields.get("tool") is None:
        return None, None
    tool = _object(fields["tool"], "`tool`")
    return _id(tool, "messageID"), _id(tool, "callID")


def _metadata(value: object) -> dict[str, Any]:
    return {} if value is None else dict(_object(value, "its metadata"))


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ShapeError(f"its {what} is not a text")
    return value


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > PATTERN_COUNT or not all(isinstance(one, str) for one in value):
        raise ShapeError(f"its {what} is not a list of at most {PATTERN_COUNT} texts")
    return tuple(value)
