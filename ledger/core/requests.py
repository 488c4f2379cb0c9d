"""Requests and answers from outside: checked, bounded, and with the digest that binds an answer to them.

Request fields: `opencode.md` "Permission Request"; `opencode-zh.md` 3.4; `brutus.md` types.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypedDict

import msgspec

from ledger.core.codec import require_payload_size
from ledger.core.errors import InputError
from ledger.core.events import Actor, GrantBounds, ToolRef
from ledger.core.ids import check_id
from ledger.core.limits import (
    EDITED_PATTERN_COUNT,
    GRANT_USES_COUNT,
    JSON_DEPTH_LEVELS,
    MESSAGE_BYTES,
    METADATA_BYTES,
    NAME_LENGTH_CHARS,
    PATTERN_COUNT,
    PATTERN_LENGTH_BYTES,
)
from ledger.core.operands import Operand, check_operands
from ledger.core.policy import Call, ReplyKind
from ledger.core.questions import GivenRunner, Question, request_digest
from ledger.core.times import check_duration_ms, seconds_as_ms

REPEATED_COUNT: Final = 512
"""The cache size of questions without metadata or tool."""

REPEATED_TEXTS_COUNT: Final = 4
REPEATED_CHARS: Final = 2000
"""The limit on the patterns of a cached question."""


class AskDetails(TypedDict, total=False):
    """The optional arguments of every ask, besides its call. `cwd` is the folder that the call would run in.

    `operands` are the files that it executes or reads as a program, as found where it would run. `waits` is the time
    (seconds) for which the asker waits for the answer: nobody can extend the request beyond it.
    """

    metadata: Mapping[str, Any] | None
    tool: ToolRef | Mapping[str, str] | None
    agent: str | None
    parent: str | None
    cwd: str | None
    operands: Iterable[Operand | Mapping[str, Any]] | None
    waits: float | None


class QuestionOptions(AskDetails, total=False):
    """The optional arguments of `make_question`."""

    always: Iterable[str]
    tool_name: str | None
    tool_input: Any


class AskOptions(QuestionOptions, total=False):
    """The optional arguments of `Session.ask` and `Session.submit`. `claim` is the runner of the call."""

    request_id: str | None
    actor: Actor | str | None
    claim: GivenRunner | None


class ToolAskOptions(AskDetails, total=False):
    """The optional arguments of `Session.ask_tool` and `Session.submit_tool`, besides the request's id."""

    always: Iterable[str] | None
    actor: Actor | str | None
    claim: GivenRunner | None


def make_question(
    permission: str,
    patterns: Iterable[str],
    *,
    always: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
    tool: ToolRef | Mapping[str, str] | None = None,
    tool_name: str | None = None,
    tool_input: Any = None,
    agent: str | None = None,
    parent: str | None = None,
    cwd: str | None = None,
    operands: Iterable[Operand | Mapping[str, Any]] | None = None,
    waits: float | None = None,
) -> Question:
    """Check the arguments of an ask and return the question. Raises InputError."""
    given, offered = _listed(patterns, "pattern"), () if always == () else _listed(always, "always pattern")
    bare = metadata is None and tool is None and tool_name is None and tool_input is None
    if bare and operands is None and waits is None:
        try:
            if _are_few(given) and _are_few(offered):
                return _bare_question(permission, given, offered, (agent, parent, cwd))
        except TypeError:
            pass  # no texts, and thus malformed: refused below
    return _question(
        permission,
        given,
        offered,
        (agent, parent, cwd),
        tool_name=None if tool_name is None else check_name(tool_name, "tool name"),
        tool_input=_check_json(tool_input, "tool input"),
        metadata=_check_metadata(metadata),
        tool=_check_tool(tool),
        operands=None if operands is None else check_operands(operands),
        waits_ms=seconds_as_ms(waits, "wait of the asker"),
    )


def _question(
    permission: str,
    patterns: tuple[str, ...],
    always: tuple[str, ...],
    where: tuple[str | None, str | None, str | None],
    *,
    tool_name: str | None = None,
    tool_input: Any = None,
    **rest: Any,
) -> Question:
    agent, parent, cwd = where
    _check_patterns(patterns, "pattern")
    _check_patterns(always, "always pattern")
    # At least so many bytes; nothing is judged, or searched for secrets, that could never be written.
    require_payload_size(sum(map(len, patterns)) + sum(map(len, always)))
    call = Call(
        permission=check_name(permission, "permission"),
        patterns=patterns,
        tool_name=tool_name,
        input=tool_input,
        cwd=check_folder(cwd, "working directory"),
        agent=None if agent is None else check_name(agent, "agent"),
    )
    parent = None if parent is None else check_name(parent, "parent")
    return _digested(Question(call=call, always=always, agent=call.agent, parent=parent, **rest))


_bare_question: Final = lru_cache(REPEATED_COUNT)(_question)
"""Return a question without metadata or tool; agents repeat these, so they are checked and hashed once."""


def in_folder(question: Question, folder: str | None) -> Question:
    """Return the question in `folder`, the session's, unless its call has a folder."""
    call = question.call
    if folder is None or call.cwd is not None:
        return question
    is_bare = call.tool_name is None and call.input is None and question.tool is None and not question.metadata
    is_bare = is_bare and question.operands is None
    if is_bare and _are_few(call.patterns) and _are_few(question.always):
        where = (question.agent, question.parent, folder)
        return _bare_question(call.permission, call.patterns, question.always, where)
    return _digested(msgspec.structs.replace(question, call=msgspec.structs.replace(call, cwd=folder)))


def by_agent(question: Question, agent: str | None) -> Question:
    """Return the question with a call of `agent`, the session's, unless the question names one."""
    if agent is None or question.call.agent is not None:
        return question
    return msgspec.structs.replace(question, call=msgspec.structs.replace(question.call, agent=agent))


def _digested(question: Question) -> Question:
    return msgspec.structs.replace(question, digest=request_digest(question, question.call.cwd))


def check_name(value: object, what: str) -> str:
    """Return a name: 1 to 256 printable characters. Raises InputError."""
    if not isinstance(value, str):
        raise InputError(f"the {what} must be a string, not {type(value).__name__}")
    if not value or len(value) > NAME_LENGTH_CHARS:
        raise InputError(f"the {what} has {len(value)} characters; 1 to {NAME_LENGTH_CHARS} are accepted")
    if not value.isprintable():
        raise InputError(f"the {what} {value!a} holds characters that cannot be shown")
    return value


def check_actor(actor: Actor) -> Actor:
    """Return an actor whose members are all texts. Raises InputError."""
    try:
        return _checked_actor(actor)
    except TypeError:
        return _checked_actor.__wrapped__(actor)  # unhashable and thus malformed


@lru_cache(REPEATED_COUNT)
def _checked_actor(actor: Actor) -> Actor:
    for member, value in msgspec.structs.asdict(actor).items():
        if not isinstance(value, str) and (value is not None or member in ("kind", "name")):
            raise InputError(f"the actor's `{member}` must be a string, not {type(value).__name__}")
    return actor


def check_folder(value: object, what: str) -> str | None:
    """Return an absolute path within the bound, or None for None. Raises InputError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"the {what} must be a string, not {type(value).__name__}")
    if not value.startswith("/") or "\0" in value:
        raise InputError(f"the {what} {value!a} must be an absolute path")
    if len(_utf8(value, what)) > PATTERN_LENGTH_BYTES:
        raise InputError(f"the {what} takes more than {PATTERN_LENGTH_BYTES} bytes")
    return value


def check_message(value: str | None, what: str = "message") -> str | None:
    """Return free text of a person within the bound. Raises InputError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"the {what} must be a string, not {type(value).__name__}")
    size = len(_utf8(value, what))
    if size > MESSAGE_BYTES:
        raise InputError(f"the {what} takes {size} bytes; at most {MESSAGE_BYTES} are accepted")
    return value


def check_tool_input(value: object) -> dict[str, Any]:
    """Return a tool's input within the bound, after a round trip through JSON. Raises InputError."""
    if not isinstance(value, Mapping):
        raise InputError(f"the input of a tool must be an object, not {type(value).__name__}")
    checked: dict[str, Any] = _check_json(dict(value), "tool input")
    return checked


def _utf8(value: str, what: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InputError(f"the {what} {value[:40]!a} is not valid Unicode") from None


def _are_few(texts: tuple[str, ...]) -> bool:
    return not texts or (len(texts) <= REPEATED_TEXTS_COUNT and sum(map(len, texts)) <= REPEATED_CHARS)


def _listed(values: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)):
        raise InputError(f"{what}s are a list, not the single text {values[:40]!a}")
    if not isinstance(values, (list, tuple)) and not isinstance(values, Iterable):
        raise InputError(f"{what}s are a list, not {type(values).__name__}")
    return tuple(values)


def _check_patterns(patterns: tuple[str, ...], what: str) -> None:
    if len(patterns) > PATTERN_COUNT:
        raise InputError(f"{len(patterns)} {what}s are too many; at most {PATTERN_COUNT} are accepted")
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise InputError(f"a {what} must be a string, not {type(pattern).__name__}")
        size = len(_utf8(pattern, what))
        if size > PATTERN_LENGTH_BYTES:
            raise InputError(f"a {what} takes {size} bytes; at most {PATTERN_LENGTH_BYTES} are accepted")


def _check_metadata(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"metadata must be a JSON object, not {type(value).__name__}")
    checked: dict[str, Any] = _check_json(dict(value), "metadata")
    return checked


def _check_json(value: Any, what: str) -> Any:
    """Return a value after a round trip through JSON, so that the stored value is the judged one. Raises InputError."""
    if value is None:
        return None
    _check_shape(value, what)
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise InputError(f"the {what} holds text that is not valid Unicode") from None
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InputError(f"the {what} cannot be written as JSON: {error}") from error
    if len(encoded) > METADATA_BYTES:
        raise InputError(f"the {what} takes {len(encoded)} bytes; at most {METADATA_BYTES} are accepted")
    return msgspec.json.decode(encoded)


def _check_shape(value: Any, what: str) -> None:
    """Raise InputError for a value that JSON cannot represent: an encoder would change it before it is judged."""
    level, count = [value], 0
    for _ in range(JSON_DEPTH_LEVELS):
        level = [inner for outer in level for inner in _inside(outer, what)]
        if not level:
            return
        # A value that contains itself twice grows without end; every member takes at least one byte.
        count += len(level)
        if count > METADATA_BYTES:
            raise InputError(f"the {what} has more members than fit into {METADATA_BYTES} bytes")
    raise InputError(f"the {what} is nested deeper than {JSON_DEPTH_LEVELS} levels")


def _inside(value: Any, what: str) -> Iterable[Any]:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"the {what} has the key {key!a}; the keys of a JSON object are strings")
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"the {what} holds `{value}`, which JSON has no form for")
    if value is not None and not isinstance(value, str | int | float):
        raise InputError(f"the {what} holds a value of type {type(value).__name__}, which JSON has no form for")
    return ()


def _check_tool(value: object) -> ToolRef | None:
    if value is None:
        return None
    if isinstance(value, ToolRef):
        value = {"message_id": value.message_id, "call_id": value.call_id}
    if not isinstance(value, Mapping) or set(value) != {"message_id", "call_id"}:
        raise InputError("tool must be an object with exactly `message_id` and `call_id`")
    return ToolRef(check_id(value["message_id"], "message id"), check_id(value["call_id"], "call id"))


GRANTING_ROLES: Final = frozenset((None, "approver", "admin"))
"""The roles that may make grants of their own, and so may widen an offer; None is a process beside the server."""


def grant_bounds(expires_in_ms: int | None, uses: int | None) -> GrantBounds | None:
    """Return the bounds of an answer's grants; None without any. Raises InputError."""
    if expires_in_ms is None and uses is None:
        return None
    return GrantBounds(
        None if expires_in_ms is None else check_duration_ms(expires_in_ms, "time to live"),
        None if uses is None else check_uses(uses),
    )


def check_uses(value: object) -> int:
    """Return a number of uses, at least 1. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= GRANT_USES_COUNT:
        raise InputError(f"the number of uses must be a whole number from 1 to {GRANT_USES_COUNT}, not {value!a:.40}")
    return value


def check_edited(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that replace the offered ones, each once. Raises InputError for none, or too many."""
    found = tuple(dict.fromkeys(make_question("grant", patterns).call.patterns))
    if not found:
        raise InputError("give at least one pattern, or none at all for the offered ones")
    if len(found) > EDITED_PATTERN_COUNT:
        raise InputError(f"{len(found)} patterns are too many for one answer; give at most {EDITED_PATTERN_COUNT}")
    return found


ReplyWord = Literal["once", "session", "always", "reject", "ALLOW_ONCE", "ALLOW_SESSION", "DENY"]
"""The words of an answer: ours, and BetCode's names of them."""

Answer = ReplyWord | Mapping[str, Any]
"""An answer: a word, or Codelia's `{ok, remember, reason}`."""

_NAMES: dict[str, ReplyKind] = {
    "once": "once",
    "session": "session",
    "always": "always",
    "reject": "reject",
    # betcode.md, PermissionResponse.decision
    "ALLOW_ONCE": "once",
    "ALLOW_SESSION": "session",
    "DENY": "reject",
}


def parse_reply(value: object) -> ReplyKind:
    """Parse `once`, `session`, `always` or `reject`, or BetCode's name of one. Raises InputError."""
    reply = _NAMES.get(value) if isinstance(value, str) else None
    if reply is None:
        raise InputError(f"`{value}` is not a reply; use `once`, `session`, `always` or `reject`")
    return reply


def parse_answer(value: object, message: str | None) -> tuple[ReplyKind, str | None]:
    """Parse an answer with its feedback, given as a word or as Codelia's confirm result. Raises InputError."""
    if isinstance(value, str) or not isinstance(value, Mapping):
        return parse_reply(value), message
    kind, reason = parse_confirm_result(value)
    if reason is not None and message is not None:
        raise InputError("a confirm result brings its own `reason`; give no message beside it")
    return kind, reason if message is None else message


def parse_confirm_result(value: Mapping[str, Any]) -> tuple[ReplyKind, str | None]:
    """Parse Codelia's `{ok, remember, reason}` (`codelia.md` section 8) as reply and feedback. Raises InputError."""
    ok, remember, reason = value.get("ok"), value.get("remember", False), value.get("reason")
    well_formed = isinstance(ok, bool) and isinstance(remember, bool) and isinstance(reason, str | None)
    if not well_formed or set(value) - {"ok", "remember", "reason"}:
        raise InputError("a confirm result is `{ok: true|false, remember?: true|false, reason?: text}`")
    if not ok:
        return "reject", reason
    return ("always" if remember else "once"), reason
