"""The ledger of a run: in this process, or behind a gateway. Each step connects anew, since the command runs between."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ledger import Ledger, StoreError
from ledger.client.calls import carry_through
from ledger.client.claims import operands_here
from ledger.core import errors
from ledger.core.errors import InputError, LedgerError, ReopenedError
from ledger.core.policy import Call
from ledger.core.questions import Runner, claim_id_of
from ledger.core.requests import ToolAskOptions
from ledger.core.times import SECOND_MS
from ledger.masks.masking import first_kind
from ledger.masks.own_input import with_own_texts
from ledger.policy.dialects import DEFAULT_DIALECT, dialect_named
from ledger.policy.loader import own_home
from ledger.policy.shell.lexer import lex
from workers.bridges.options import given_rules
from workers.cli.ask import OpeningInput, WaitInput, open_session, watching
from workers.cli.base import local_actor
from workers.transport.gateway_client import WAIT_SECONDS, GatewayClient, Row
from workers.transport.place import BridgeError, GatewayRefusalError, UnreachableError
from workers.transport.trusted import rules_trusted_for

if TYPE_CHECKING:
    from ledger import Result, Session

MEMBER: Final = "command"
"""The member of the tool's input that holds the command line."""

SHELL: Final = ("bash", "-c")
"""The shell of a line: the one by whose grammar rules read it."""


class WantedCommand(NamedTuple):
    """Words that run without a shell, or with `is_line` one line for a shell."""

    words: tuple[str, ...]
    is_line: bool = False

    @property
    def line(self) -> str:
        """Return the command as a line, which is what rules judge and people read."""
        return self.words[0] if self.is_line else shlex.join(self.words)

    @property
    def input(self) -> dict[str, Any]:
        return {MEMBER: self.line}

    def to_run(self, allowed: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the words to start for the input that may run, which a person may have changed.

        Raises InputError for an input that cannot be run as this command is run.
        """
        # Secrets that are masked in the log are our own here.
        runs = with_own_texts(dict(allowed), self.input)
        line = runs.get(MEMBER)
        if runs == self.input:
            return (*SHELL, self.line) if self.is_line else self.words
        if not isinstance(line, str) or set(runs) != {MEMBER}:
            said = json.dumps(runs, ensure_ascii=False)
            raise InputError(f"it was allowed only as {said}, which is more than a command to run; nothing was run")
        return (*SHELL, line) if self.is_line else _plain_words(line)


def _plain_words(line: str) -> tuple[str, ...]:
    """Return the words of a line that means the same with and without a shell. Raises InputError for any other."""
    found = lex(line)
    words = found.commands[0].words if found.plain and len(found.commands) == 1 else ()
    plain = tuple(word.resolved for word in words if word.resolved is not None and not word.glob and not word.tilde)
    if not words or len(plain) != len(words) or found.commands[0].redirects:
        raise InputError(
            f"it was allowed only as `{line}`, which needs a shell; run that with `--shell`; nothing was run"
        )
    return plain


class RunRequest(NamedTuple):
    """The request of a run, as typed. `folder` is the folder that the command runs in, an absolute path."""

    session: str
    request_id: str
    command: WantedCommand
    folder: str
    opening: OpeningInput
    wait: WaitInput

    @property
    def has_secret(self) -> bool:
        """Return whether the log has a mask in the command, so that a claim by the request's id could not judge it."""
        return first_kind(self.command.input) is not None


class RunVerdict(NamedTuple):
    """The end of the question: an allow, or the `outcome` (None: still pending) and the error that says why not.

    `claim_id` and `claim_status` are those of its last claim, if it has one.
    """

    request_id: str
    outcome: str | None
    error: LedgerError | None = None
    claim_id: str | None = None
    claim_status: str | None = None


class DirectRun:
    """The steps of a run whose ledger is opened by this process. Each raises LedgerError, and connects anew."""

    def __init__(self, url: str | None, request: RunRequest) -> None:
        self._url = url
        self._request = request

    async def ask(self, pending: Callable[[str], None]) -> RunVerdict:
        """Ask, and wait as long as wanted; `pending` is called with the id of each request that waits for a person."""
        wanted = self._request
        async with Ledger.connect(self._url) as ledger:
            session = await open_session(ledger, wanted.session, wanted.opening)
            deadline = _Deadline(wanted.wait)

            async def waited(result: Result) -> Result:
                if deadline.is_over:
                    return result
                pending(result.request_id)
                return await session.wait(result.request_id, deadline.left)

            async with watching(ledger, session, wanted.opening):
                result = await carry_through(partial(self._submit, session), waited, wanted.request_id)
            result = await session.remember(result, wanted.folder)
        held = None if result.settled is None else result.settled.claim
        claim = (None, None) if held is None else (held.claim_id, held.status)
        return RunVerdict(result.request_id, result.outcome, result.error(), *claim)

    async def _submit(self, session: Session, runner: Runner | None = None) -> Result:
        wanted = self._request
        tool = dialect_named(session.stream.state.dialect or DEFAULT_DIALECT).language.shell
        call = Call(tool, (), tool, wanted.command.input, wanted.folder)
        more: ToolAskOptions = {
            "agent": wanted.opening.agent,
            "cwd": wanted.folder,
            "actor": local_actor(),
            "operands": await operands_here(call, session.stream.state.home),
            "waits": wanted.wait.seconds,
            **({} if runner is None else {"claim": runner}),
        }
        return await session.submit_tool(tool, wanted.command.input, request_id=wanted.request_id, **more)

    async def claim(self, runner: Runner) -> Mapping[str, Any]:
        """Claim the call and return the input that may run."""
        async with Ledger.connect(self._url) as ledger:
            session = await ledger.attach(self._request.session)
            if self._request.has_secret:
                result = await self._submit(session, runner)
                error = result.error()
                if error is not None or result.outcome is None:
                    raise error or _reopened(result.request_id)
                return result.updated_input or self._request.command.input
            claim = await session.claim(self._request.request_id, runner=runner, actor=local_actor())
        found: Mapping[str, Any] = claim.input
        return found

    async def release(self, reason: str) -> None:
        async with Ledger.connect(self._url) as ledger:
            session = await ledger.attach(self._request.session)
            await session.release_claim(self._request.request_id, reason=reason, actor=local_actor())

    async def finish(self, runner: Runner, output: str, *, ok: bool) -> None:
        async with Ledger.connect(self._url) as ledger:
            session = await ledger.attach(self._request.session)
            await session.finish(
                self._request.request_id, claim_id_of(runner), ok=ok, output=output, actor=local_actor()
            )


class GatewayRun:
    """The same steps at a gateway, with the token of the environment."""

    def __init__(self, request: RunRequest, tell: Callable[[str], None]) -> None:
        self._request = request
        self._tell = tell
        self._body: Mapping[str, Any] = {}

    async def ask(self, pending: Callable[[str], None]) -> RunVerdict:
        async with self._gateway() as client:
            row = await self._asked(client, pending)
        claim = row.get("claim") or {}
        return RunVerdict(row["request_id"], row["outcome"], _error_of(row), claim.get("claim_id"), claim.get("status"))

    async def _asked(self, client: GatewayClient, pending: Callable[[str], None]) -> Row:
        wanted = self._request
        tool = await self._opened(client)
        trusted = None if wanted.opening.rules is not None else rules_trusted_for(wanted.folder)
        body = {
            "request_id": wanted.request_id,
            "tool_name": tool,
            "input": wanted.command.input,
            "cwd": wanted.folder,
            "operands": "ask",
            **({} if wanted.opening.agent is None else {"agent": wanted.opening.agent}),
            **({} if trusted is None else {"project_rules": trusted}),
            **({} if wanted.wait.seconds is None else {"waits": f"{round(wanted.wait.seconds * SECOND_MS)}ms"}),
        }
        self._body = body
        deadline = _Deadline(wanted.wait)
        told: str | None = None
        row = await client.submit(wanted.session, body)
        # A command may need another permission first; once that is granted, asking again goes on.
        while row["outcome"] is None or (row["outcome"] == "allowed" and row["request_id"] != wanted.request_id):
            if row["outcome"] is None and deadline.is_over:
                break
            if row["outcome"] is None and row["request_id"] != told:
                told = row["request_id"]
                pending(row["request_id"])
            left = WAIT_SECONDS if deadline.left is None else min(WAIT_SECONDS, deadline.left)
            row = await client.submit(wanted.session, body, wait=left)
        return row

    async def _opened(self, client: GatewayClient) -> str:
        """Open the session if it is new, or its rules or settings are stated; return the name of its shell's tool."""
        wanted, opening = self._request, self._request.opening
        row: Mapping[str, Any] | None = None
        if opening.rules is None:
            try:
                row = await client.read_session(wanted.session)
            except GatewayRefusalError as error:
                if error.code != "UNKNOWN_SESSION":
                    raise
        if row is not None:
            if opening.settings:
                row = await client.open_session(wanted.session, **opening.settings)
        else:
            dialect = opening.dialect or DEFAULT_DIALECT
            said: dict[str, Any] = {"dialect": dialect, "project": opening.project, "agent": opening.agent}
            said |= {"cwd": str(Path.cwd()), "home": own_home()}
            if opening.rules is not None:
                said |= given_rules(opening.rules, dialect, None)
            row = await client.open_session(wanted.session, **said, **opening.settings)
        return dialect_named(row.get("dialect") or DEFAULT_DIALECT).language.shell

    async def claim(self, runner: Runner) -> Mapping[str, Any]:
        said = {"name": runner.name, "call": runner.call}
        async with self._gateway() as client:
            if self._request.has_secret:
                row = await client.submit(self._request.session, {**self._body, "claim": said})
                error = _error_of(row)
                if error is not None or row["outcome"] is None:
                    raise error or _reopened(row["request_id"])
                return row.get("updated_input") or self._request.command.input
            row = await client.claim(self._request.session, self._request.request_id, said)
        found: Mapping[str, Any] = row["input"]
        return found

    async def release(self, reason: str) -> None:
        async with self._gateway() as client:
            await client.release(self._request.session, self._request.request_id, reason)

    async def finish(self, runner: Runner, output: str, *, ok: bool) -> None:
        asked = (self._request.session, self._request.request_id, claim_id_of(runner))
        async with self._gateway() as client:
            await client.finish(*asked, ok=ok, output=output)

    @asynccontextmanager
    async def _gateway(self) -> AsyncIterator[GatewayClient]:
        """Connect; errors of bridges are those of the ledger, so that a run fails alike in both places."""
        try:
            async with GatewayClient(tell=self._tell) as client:
                yield client
        except GatewayRefusalError as error:
            data = {name: value for name, value in error.data.items() if name not in _PROBLEM}
            raise _error(error.code, error.text, data, error.status) from error
        except UnreachableError as error:
            raise StoreError(error.text) from error
        except BridgeError as error:
            raise InputError(error.text) from error


RunPlace = DirectRun | GatewayRun


class _Deadline:
    """The end of the wait on the running loop's clock."""

    def __init__(self, wait: WaitInput) -> None:
        self._clock = asyncio.get_running_loop().time
        seconds = wait.seconds if wait.wants else 0.0
        self._at = None if seconds is None else self._clock() + seconds

    @property
    def left(self) -> float | None:
        return None if self._at is None else max(0.0, self._at - self._clock())

    @property
    def is_over(self) -> bool:
        return self.left == 0.0


_PROBLEM: Final = frozenset({"type", "title", "status", "detail", "code"})
"""The members of problem details that an error of the ledger has in another form."""

_SERVER_ERROR: Final = 500


def _error(code: str, text: str, data: Mapping[str, Any], status: int = 0) -> LedgerError:
    """Return the ledger's error with a code; for a code of the gateway alone, bad input or an unreachable ledger."""
    found = _BY_CODE.get(code) or (StoreError if status >= _SERVER_ERROR else InputError)
    return found(text, **data)


def _error_of(row: Row) -> LedgerError | None:
    if row["outcome"] in (None, "allowed"):
        return None
    evaluation = row.get("evaluation") or {}
    names = ("request_id", "session", "agent", "by", "at")
    data = {name: row[name] for name in names} | {"reasons": evaluation.get("rules", [])}
    return _error(str(row["code"]), row.get("message") or str(row["outcome"]), data)


def _reopened(request_id: str) -> ReopenedError:
    return ReopenedError(f"request `{request_id}` is pending again", request_id=request_id)


_BY_CODE: Final = {
    one.code: one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, LedgerError)
}
