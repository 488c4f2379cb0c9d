"""The steps of every hook: read one event, ask, and turn the answer into the tool's fate.

A question is one round trip if rules decide, and a wait if a person does.

Each call starts a new hook, so every question has the digest of the rules file of the hook's line. The gateway compares
it with that of the session's rules; the agent could write a note kept on this machine, and a stricter file would never be
brought.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from time import monotonic

from ledger.core.regular_files import read_regular
from workers.bridges.hooks.exchange import ReaderGoneError, quoted
from workers.bridges.session_ids import id_of, runnable
from workers.transport.place import BridgeError, GatewayRefusalError, UnreachableError
from workers.transport.trusted import digest_of, load_records, rules_trusted_for, why_untrusted

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from workers.bridges.askers import Asker
    from workers.bridges.hooks.settings import HookSettings

    class OwnPrompt(Protocol):
        """The client's own prompt beside the hook, as far as its answers are known."""

        prompt: str
        """Its name in the log."""

        def rejection(self, request_id: str) -> str | None: ...
        def rejection_at_the_end(self, request_id: str) -> str | None: ...
        def record(self, path: str, request_id: str, words: str) -> bool: ...


RULES_BYTES_MAX = 512 * 1024


class BroughtRules:
    """The rules of one question. Without a file of rules the gateway's own judge, and nothing is brought."""

    def __init__(self, file: str | None, *how: str | None) -> None:
        """`how` is everything else that decides the reading of the file: its dialect and its profile."""
        self._file = file
        self._how = how
        self._stamped = self._stamp()

    def digest(self) -> str | None:
        """Return the SHA-256 of the file's bytes, of how they are read and of the trust in them. Raises BridgeError."""
        if self._file is None:
            return None
        try:
            content = read_regular(self._file, RULES_BYTES_MAX)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise BridgeError(f"the rules `{self._file}` cannot be read: {why}") from error
        reason = why_untrusted(self._file, digest_of(content), load_records())
        return digest_of(f"{self._file}\n{self._how}\n{reason}\n".encode() + content)

    def have_changed(self) -> bool:
        """Return whether the file has changed since the last call of this method."""
        before, self._stamped = self._stamped, self._stamp()
        return before != self._stamped

    def _stamp(self) -> tuple[int, ...]:
        if self._file is None:
            return ()
        try:
            status = os.stat(self._file)  # noqa: PTH116 - pathlib is slow to import
        except OSError:
            return (0,)
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


WAIT_SECONDS = 55.0
"""The time one exchange waits; a request that is still pending then is asked for again."""


REMEDIES_MAX = 4
"""Refusals of one exchange for which the hook gives the gateway what it lacks: session, rules, files, files of now."""


class SettledHereError(Exception):
    """The user said no at the agent's own prompt; the text is the reason they gave."""


class HookedCall:
    """One call of one tool. `body` is the ask's, with `request_id`, `tool_name` and `input`."""

    def __init__(self, session: str, body: dict[str, Any], opening: dict[str, Any], settings: HookSettings) -> None:
        self.session = session
        self.body = body
        self._opening = opening
        self._settings = settings
        self._process = settings.process
        self._call = settings.process.call
        self.owner: str | None = None
        """The agent's own name for its session, if the agent reports the session's end."""
        self._path = f"/v1/sessions/{quoted(session)}"
        self._rules = BroughtRules(settings.rules, settings.dialect, settings.profile)
        self._asker: Asker | None = None
        self._attached = False
        self._waits_for: str | None = None
        self.transcript: OwnPrompt | None = None
        """Of an agent that asks its user at the same time."""

    def answer(self, until: float) -> dict[str, Any]:
        """Return the row of the request: settled, or still pending (`outcome` None) when the time is up.

        Raises GatewayRefusalError, UnreachableError, and ReaderGoneError when the answer is not needed any more.
        """
        self.body["waits"] = f"{max(1, int((until - monotonic()) * 1000))}ms"
        try:
            row = self._ask()
            if row["outcome"] is None:
                row = self._waited(row, until)
            elif self._asker is not None:
                self._asker.done()
            row = self._claimed(row)
        except SettledHereError as error:
            self._record_rejection(str(error))
            raise ReaderGoneError("the user said no at the agent's own prompt") from error
        finally:
            if self._asker is not None:
                self._asker.leave()
        return row

    def _claimed(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return an allowed row with its claim; an ask brings one along, a request of an earlier hook does not."""
        if row["outcome"] != "allowed" or (row.get("claim") and not self._attached):
            return row
        path = f"{self._path}/asks/{quoted(row['request_id'])}/claim"
        body = {"runner": self.body["claim"], "operands": self.body["operands"]}
        return {**row, "claim": self._exchange("POST", path, body)}

    def give_back(self, row: dict[str, Any], reason: str) -> None:
        """Release the claim of a call that the agent cannot be told to run."""
        path = f"{self._path}/asks/{quoted(row['request_id'])}/release"
        with suppress(BridgeError, ReaderGoneError):
            self._call("POST", path, {"reason": reason}, 0, watched=False)

    def leave(self) -> dict[str, Any]:
        """Return the row of the request as it stands. A pending one waits for the next asker of the same call."""
        row = self._ask()
        if row["outcome"] is None:
            self._begin_to_wait()
            if self._asker is not None:
                self._asker.leave()
        return row

    def take_up(self) -> str | None:
        """Take over the request that another hook made for this very call and left; return its id."""
        if not self._settings.left_behind(self.session):
            return None
        from workers.bridges.askers import Asker, digest_of, waiting_for  # noqa: PLC0415 - rarely needed

        for left in waiting_for(self.session, digest_of(self.body)):
            self._asker = Asker.take_over(self.session, left)
            if self._asker is not None:
                self.body["request_id"] = left
                self.body["claim"] = {**self.body["claim"], "call": left}  # two hooks of one call are one runner
                self._process.on_end(lambda: self._end("asker_gave_up"))
                return left
        return None

    def _ask(self, wait: float = 0) -> dict[str, Any]:
        orphan = None if self._asker is not None else self._orphan()
        if orphan is not None:
            return orphan
        path = f"{self._path}/asks"
        if wait:  # a pending request was accepted by then, and follows its file on its own
            return self._exchange("POST", f"{path}?wait={wait:g}", self.body, wait)
        return self._exchange("POST", path, self._with_digest(self.body))

    def _exchange(self, method: str, path: str, body: dict[str, Any] | None, wait: float = 0) -> dict[str, Any]:
        is_by_rules = body is not None and "rules_digest" in body
        for _ in range(REMEDIES_MAX):
            try:
                return self._call(method, path, body, self._settings.grace, wait, look=self._look)
            except GatewayRefusalError as error:
                remedy = self._remedy(error)
                if remedy is None:
                    raise
            if body is not None:
                body = {**(self._with_digest(body) if is_by_rules else body), **remedy}
        return self._call(method, path, body, self._settings.grace, wait, look=self._look)

    def _remedy(self, error: GatewayRefusalError) -> dict[str, Any] | None:
        """Give the gateway what it lacks; return what the next body says besides, or None without a remedy.

        Raises BridgeError.
        """
        if error.code == "RULES_DIFFER":
            self._bring_rules()
        elif error.code == "UNKNOWN_SESSION":
            self._open()
        elif error.code == "OPERANDS_WANTED":
            from workers.transport.operand_files import hashed  # noqa: PLC0415 - most calls execute no file

            # For the next exchange alone: at the claim they must be hashed again.
            return {"operands": hashed(error.data.get("wanted"), self._process.may_open)}
        else:
            return None
        return {}

    def _open(self) -> None:
        body = self._with_digest(self._settings.opening(self._opening))
        self._call("PUT", self._path, body, self._settings.grace)

    def _bring_rules(self) -> None:
        """Give the session the current rules of the file. Raises BridgeError: unreadable rules allow nothing."""
        self._call("PUT", self._path, self._with_digest(self._settings.rules_of_now()), self._settings.grace)

    def _with_digest(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with the digest of the rules that judge. Raises BridgeError when they cannot be read.

        Without a file in the hook's line these are the rules that the user trusts in the session's project, if any.
        """
        digest = self._rules.digest()
        if digest is not None:
            return {**body, "rules_digest": digest}
        trusted = rules_trusted_for(self._opening.get("cwd"))
        return body if trusted is None else {**body, "project_rules": trusted}

    def _begin_to_wait(self) -> None:
        from workers.bridges.askers import Asker  # noqa: PLC0415 - only when somebody must be waited for

        if self._asker is None:
            self._asker = Asker.wait_for(self.session, self.body["request_id"], self.body, self.owner)

    def _waited(self, row: dict[str, Any], until: float) -> dict[str, Any]:
        self._waits_for = row["request_id"]
        self._process.on_end(lambda: self._end("asker_gave_up"))
        self._begin_to_wait()
        try:
            while row["outcome"] is None and monotonic() < until:
                self._waits_for = row["request_id"]
                wait = max(0.1, min(WAIT_SECONDS, until - monotonic()))
                row = self._more(row, wait)
        except ReaderGoneError:
            self._end(self._process.ends_with)
            raise
        except GatewayRefusalError as error:
            if error.code != "ALREADY_CLAIMED" or self.transcript is None:
                raise
            raise ReaderGoneError("the call has run already, allowed at the agent's own prompt") from error
        if row["outcome"] is not None and self._asker is not None:
            self._asker.done()
        if row["outcome"] == "allowed" and self.transcript is not None and row.get("told") == self.transcript.prompt:
            # A yes to the prompt of one call must not answer the prompt of an equal call.
            raise ReaderGoneError("the user said yes at the agent's own prompt")
        return row

    def _look(self) -> None:
        """Check everything that may change during the wait for the gateway. Raises SettledHereError."""
        if self._rules.have_changed():
            with suppress(BridgeError):  # a pending request stays pending; new asks are refused
                self._bring_rules()
        said = None if self.transcript is None else self.transcript.rejection(self.body["request_id"])
        if said is not None:
            raise SettledHereError(said)

    def _record_rejection(self, words: str) -> None:
        assert self.transcript is not None, "it has the answer"
        asked = self._waits_for or self.body["request_id"]
        if self.transcript.record(self._path, asked, words) and self._asker is not None:
            self._asker.done()

    def _more(self, row: dict[str, Any], wait: float) -> dict[str, Any]:
        if self._attached and self._asker is not None:
            return self._exchange(
                "GET", f"{self._path}/asks/{quoted(self._asker.request_id)}?wait={wait:g}", None, wait
            )
        row = self._exchange("POST", f"{self._path}/asks?wait={wait:g}", self.body, wait)
        if row["outcome"] == "allowed" and row["request_id"] != self.body["request_id"]:
            return {**row, "outcome": None}  # the permission required first is granted; now the call itself
        return row

    def _orphan(self) -> dict[str, Any] | None:
        """Return the pending request of the same call whose asker is gone; searched for only if one was left behind."""
        if not self._settings.left_behind(self.session):
            return None
        from workers.bridges.askers import Asker, digest_of, waiting_for  # noqa: PLC0415 - rarely needed
        from workers.transport.operand_files import are_unchanged  # noqa: PLC0415 - the same

        for left in waiting_for(self.session, digest_of(self.body)):
            row = self._standing(left)
            asker = Asker.take_over(self.session, left)
            if asker is None:
                continue
            if row["outcome"] is None and not are_unchanged(row, self._process.may_open):
                asker.leave()  # the person was asked about other files
                continue
            if row["outcome"] is None:
                self._asker, self._attached = asker, True
                if self._settings.rules is not None:
                    self._bring_rules()  # a pending request was judged by the rules of its time
                return row
            asker.done()
        return None

    def _standing(self, request_id: str) -> dict[str, Any]:
        try:
            return self._call("GET", f"{self._path}/asks/{quoted(request_id)}", None, self._settings.grace)
        except GatewayRefusalError as error:
            if error.status != 404:
                raise
            return {"outcome": "unknown"}

    def _end(self, cause: str) -> None:
        """Record the user's no if that ended the client's wait; else withdraw the request."""
        words = None if self.transcript is None else self.transcript.rejection_at_the_end(self.body["request_id"])
        if words is None:
            self.withdraw(cause)
        else:
            self._record_rejection(words)

    def withdraw(self, cause: str) -> None:
        """Withdraw the request, if that can be done quickly."""
        path = f"{self._path}/asks/{quoted(self._waits_for or self.body['request_id'])}/cancel"
        try:
            self._call("POST", path, {"cause": cause}, 0, watched=False)
        except Exception:  # noqa: BLE001 - it stays pending and expires; there is nobody left to tell
            return
        if self._asker is not None:
            self._asker.done()


NAMED_COUNT = 3
"""The number of rules and grants to name; the others are counted."""

TEXT_CHARS_MAX = 200


def decided_by(row: dict[str, Any]) -> str:
    """Return the name of whatever allowed a settled row."""
    if row.get("reply"):
        return str(row["by"])
    evaluation = row.get("evaluation") or {}
    granted = dict.fromkeys(grant for part in evaluation.get("parts", ()) for grant in part.get("grants", ()))
    named = [*map(_rule, evaluation.get("rules", ())), *(f"grant {grant_id}" for grant_id in granted)]
    if not named:
        return "the rules"
    more = f" and {len(named) - NAMED_COUNT} more" if len(named) > NAMED_COUNT else ""
    return ", ".join(named[:NAMED_COUNT]) + more


def _rule(rule: dict[str, Any]) -> str:
    place = rule.get("file") or rule.get("layer")
    line = f":{rule['line']}" if rule.get("file") and rule.get("line") else ""
    return f"rule `{rule['text'][:TEXT_CHARS_MAX]}`" + (f" ({place}{line})" if place else "")


INPUT_BYTES_MAX = 16 * 1024 * 1024


class HookAnswer:
    """`behaviour`: allow, deny, or agent, which leaves the decision to the client's own prompt."""

    def __init__(
        self,
        behaviour: str,
        message: str,
        updated_input: dict[str, Any] | None = None,
        claimed: Callable[[str], None] | None = None,
    ) -> None:
        """`claimed` gives back the claim of an allowed call, with a reason."""
        self.behaviour = behaviour
        self.message = message
        self.updated_input = updated_input
        self._claimed = claimed

    def not_told(self) -> None:
        """Give back the claim of a call that was allowed with an input that the agent does not take."""
        if self._claimed is not None:
            self._claimed("the agent takes no corrected call, and was not told to run it")


def read_event() -> dict[str, Any]:
    """Return the event on stdin. Raises BridgeError, ValueError."""
    text = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
    if len(text) > INPUT_BYTES_MAX:
        raise BridgeError(f"the hook's input takes more than {INPUT_BYTES_MAX} bytes")
    event = json.loads(text)
    if not isinstance(event, dict):
        raise BridgeError("the hook's input is not a JSON object")
    return event


def text_of(event: dict[str, Any], name: str) -> str:
    """Return a required member. Raises BridgeError."""
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise BridgeError(f"the hook's input has no `{name}`")
    return value


def input_of(event: dict[str, Any]) -> dict[str, Any]:
    """Return the call's input. Raises BridgeError."""
    tool_input = event.get("tool_input")
    if not isinstance(tool_input, dict):
        raise BridgeError("the hook's input has no `tool_input`")
    return tool_input


def hooked_call(
    agent: str, event: dict[str, Any], body: dict[str, Any], settings: HookSettings, folder: str | None = None
) -> HookedCall:
    """Return the call of an event in its session. Raises BridgeError without one.

    `body` is what the ask says besides; None is left out. Its `agent` is a sub-agent of `agent`. `folder` is the session's
    where it is not the call's.
    """
    session = settings.session or id_of(text_of(event, "session_id"))
    cwd = event.get("cwd")
    runner = {"name": runner_name(agent, event, session), "call": body["request_id"]}
    said = {"agent": agent, "cwd": cwd, "operands": "ask", **body, "claim": runner}
    if said["agent"] != agent:
        said["parent"] = agent
    opening = {"agent": agent, "cwd": folder or cwd}
    return HookedCall(session, {key: value for key, value in said.items() if value is not None}, opening, settings)


def runner_name(agent: str, event: dict[str, Any], session: str) -> str:
    """Return the name of the agent that runs the calls of an event: its program and its own session."""
    own = event.get("session_id")
    return f"{agent} {id_of(own) if isinstance(own, str) and own else session}"


def decided(
    settings: HookSettings, agent: str, events: Sequence[str], asked: Callable[[dict[str, Any]], dict[str, Any]]
) -> tuple[dict[str, Any], HookAnswer | None]:
    """Read one event, and return it with the answer to the call; `asked` returns what an event asks.

    Raises BridgeError for an event that is not listed.
    """
    until = monotonic() + settings.patience
    event = read_event()
    name = event.get("hook_event_name")
    if name not in events:
        raise BridgeError(f"`{name}` is not an event of this hook; it answers {' and '.join(events)}")
    return event, answer_of(hooked_call(agent, event, asked(event), settings), settings, until)


def answer_of(hooked: HookedCall, settings: HookSettings, until: float | None) -> HookAnswer | None:
    """Ask and wait; None when the answer is not needed any more. Nothing but the outcome `allowed` allows.

    Without `until` it does not wait: the client's own prompt asks the person as well.
    """
    try:
        row = hooked.leave() if until is None else hooked.answer(until)
    except ReaderGoneError:
        return None
    except UnreachableError as error:
        if settings.on_unreachable == "agent":
            return HookAnswer("agent", error.text)
        return HookAnswer("deny", f"denied, because nobody could be asked: {error.text}")
    except BridgeError as error:
        return HookAnswer("deny", f"the permission ledger refuses: {error.text}")
    if row["outcome"] == "allowed":
        return _allowed(hooked, row)
    if row["outcome"] is None and until is None:
        return HookAnswer("agent", "asked in the permission ledger's inbox as well; the first answer counts")
    if row["outcome"] is None:
        return HookAnswer(
            "deny", f"still pending, ask again: a person has not answered yet (request {row['request_id']})"
        )
    return HookAnswer("deny", row.get("message") or f"the request was {row['outcome']}")


def _allowed(hooked: HookedCall, row: dict[str, Any]) -> HookAnswer:
    """Return the answer to an allowed call; a deny where the agent cannot be told what may run."""
    try:
        runs = runnable(row.get("updated_input"), hooked.body.get("input"))
    except BridgeError as error:
        hooked.give_back(row, error.text)
        return HookAnswer("deny", f"the permission ledger refuses: {error.text}")
    message = row.get("message") or f"allowed by {decided_by(row)}"
    return HookAnswer("allow", message, runs, lambda reason: hooked.give_back(row, reason))
