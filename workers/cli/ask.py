"""`ask`, for agents without Python and for trying a ruleset; and the session of every command that asks."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_args

import click

from ledger import Timeouts
from ledger.client.calls import carry_through
from ledger.client.claims import operands_here
from ledger.client.policy_files import PolicyFiles, PolicyWatch, watch_policy
from ledger.core.errors import InputError
from ledger.core.events import Extending, WhenFrozen
from ledger.core.ids import check_id, new_request_id
from ledger.core.operands import Operand
from ledger.core.policy import Call
from ledger.core.timeouts import RunLimits
from ledger.policy import PolicySource
from ledger.policy.dialects import DEFAULT_DIALECT, dialect_named
from ledger.policy.loader import own_home
from ledger.policy.stored_rules import placed
from ledger.session.state import SessionState
from workers.cli.base import checked, command, json_object, local_actor, seconds, with_ledger
from workers.cli.description import print_result
from workers.cli.options import adding, with_run_limits
from workers.cli.output import OF_OUTCOME, CommandOutput, talk
from workers.runtime.project_rules import ProjectRules, project_of_source, read_rule_file, source_name
from workers.transport.trusted import files_are_read, trust_file

if TYPE_CHECKING:
    from ledger import Ledger, Result, Session


class OpeningInput(NamedTuple):
    """The options of the session, as typed."""

    project: str | None
    rules: str | None
    dialect: str | None
    attended: str | None
    unattended: str | None
    agent: str | None
    approval_lifetime: str | None
    claim_timeout: str | None
    when_frozen: WhenFrozen | None
    extending: Extending | None

    @property
    def deadlines(self) -> dict[str, str | None]:
        return {"attended": self.attended, "unattended": self.unattended}

    @property
    def limits(self) -> RunLimits:
        """Return the limits of runs. Raises InputError."""
        return RunLimits.read(self.approval_lifetime, self.claim_timeout, are_options=True)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings as a gateway takes them; only those that were typed."""
        texts = {one: getattr(self, one) for one in ("approval_lifetime", "claim_timeout", "when_frozen", "extending")}
        stated = {one: text for one, text in texts.items() if text is not None}
        deadlines = {one: text for one, text in self.deadlines.items() if text is not None}
        return {**stated, "timeouts": deadlines} if deadlines else stated

    def check(self) -> None:
        """Check everything that can be checked without a ledger. Raises InputError, PolicyError."""
        Timeouts().stated(self.deadlines, "--{}")
        _ = self.limits
        self.policy()

    def policy(self) -> PolicySource | None:
        """Return the rules of --rules, read now; None without the option. Raises PolicyError."""
        if self.rules is None:
            return None
        dialect = dialect_named(self.dialect or DEFAULT_DIALECT)
        source = read_rule_file(dialect.name, self.rules)
        return placed(source, cwd=str(Path.cwd()), home=own_home())


class WaitInput(NamedTuple):
    """The options of the wait, read: whether to wait, and at most how many seconds."""

    wants: bool
    seconds: float | None

    @classmethod
    def read(cls, no_wait: bool, timeout: str | None) -> WaitInput:
        """Raise UsageError for both options, InputError for a malformed duration."""
        if no_wait and timeout is not None:
            raise click.UsageError("give --no-wait or --timeout, not both")
        return cls(not no_wait, seconds(timeout, "--timeout"))


with_opening: Final = adding(
    click.option("--project", metavar="PROJECT", help="The session's project, when this opens the session."),
    click.option(
        "--rules", metavar="FILE", help="Rules for the session from here on (.json or .jsonc); followed while waiting."
    ),
    click.option("--dialect", metavar="DIALECT", help="The dialect of the rules (default: opencode)."),
    click.option(
        "--attended",
        metavar="DURATION",
        help="Time for an answer while somebody is there (60s).",
    ),
    click.option(
        "--unattended",
        metavar="DURATION",
        help="Time for an answer otherwise (7d).",
    ),
    with_run_limits,
    click.option(
        "--when-frozen",
        type=click.Choice(get_args(WhenFrozen)),
        help="Requests that come during a freeze wait (the default), or are denied.",
    ),
    click.option(
        "--extending",
        type=click.Choice(get_args(Extending)),
        help="While a person writes or has the card open, an attended request waits five minutes (automatic, the "
        "default); only `extend` gives more time (by-hand); nothing does (never).",
    ),
    click.option("--agent", metavar="NAME", help="The agent that asks; its section of the rules counts."),
)
"""The options of OpeningInput."""

with_waiting: Final = adding(
    click.option("--no-wait", is_flag=True, help="Do not wait for an answer: exit code 7 when it is pending."),
    click.option("--timeout", metavar="DURATION", help="Wait at most this long; the request stays pending."),
)


async def open_session(ledger: Ledger, session_id: str, opening: OpeningInput) -> Session:
    """Open a session, or attach to it. Without --rules a new one has those of the project of this folder, if it is trusted.

    Raises InputError for another dialect than that of its rules, and for a session of another project.
    """
    state = await ledger.streams.session(check_id(session_id, "session id")).refresh()
    policy, limits = opening.policy(), opening.limits
    spoken = state.dialect or None
    if policy is None and spoken is not None and opening.dialect not in (None, spoken):
        raise InputError(f"the rules of session `{session_id}` are of dialect `{spoken}`; give other --rules with it")
    origin, files = (opening.rules, None) if policy is not None else _of_project(state, opening.dialect)
    if files is not None and state.opened_ms is None:
        policy = await files.current()
    session = await ledger.session(
        session_id,
        project=opening.project,
        policy=policy,
        policy_source=origin,
        dialect=opening.dialect or DEFAULT_DIALECT,
        timeouts=_timeouts(state, opening),
        approval_lifetime=limits.approval_lifetime,
        claim_timeout=limits.claim_timeout,
        when_frozen=opening.when_frozen,
        extending=opening.extending,
        agent=opening.agent if state.opened_ms is None else None,
        cwd=str(Path.cwd()),
        home=own_home(),
        actor=local_actor(),
    )
    if files is not None:
        await PolicyWatch(ledger, session, files, origin, denies_alone=True).check()
    return session


def _of_project(state: SessionState, dialect: str | None) -> tuple[str | None, PolicyFiles | None]:
    """Return the name in the log and the rules of the project that a new session, or one bound to it, is judged by.

    Raises InputError for a session of another project than that of this folder.
    """
    if not files_are_read():
        return None, None
    projects = ProjectRules()
    here, bound = projects.file_of(str(Path.cwd())), project_of_source(state.policy_source)
    if bound is None and (here is None or state.opened_ms is not None):
        return None, None
    if bound is not None and here not in (None, bound):
        raise InputError(
            f"session `{state.session_id}` is judged by the rules of `{bound}`, and this folder has those of `{here}`; "
            "use another session"
        )
    file = bound or here
    assert file is not None, "one of both"
    files = projects.rules(file, state.dialect or dialect or DEFAULT_DIALECT, is_bound=bound is not None)
    return (None, None) if files is None else (source_name(file), files)


def watching(ledger: Ledger, session: Session, opening: OpeningInput) -> AbstractAsyncContextManager[object]:
    """Watch the file of --rules during the wait: later asks are judged by its content then."""
    if opening.rules is None:
        return nullcontext()
    return watch_policy(ledger, session, lambda: _followed(opening), files=[trust_file()], policy_source=opening.rules)


def _followed(opening: OpeningInput) -> PolicySource:
    source = opening.policy()
    assert source is not None, "only where there is a file"
    return source


def _timeouts(state: SessionState, opening: OpeningInput) -> Timeouts | None:
    if opening.attended is None and opening.unattended is None:
        return None
    return Timeouts.of(state.settings).stated(opening.deadlines, "--{}")


class AskInput(NamedTuple):
    """The request as typed."""

    session: str
    permission: str | None
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    metadata: str | None
    tool: str | None
    tool_input: str | None
    agent: str | None
    cwd: str | None

    @property
    def folder(self) -> str:
        return str(Path(self.cwd or ".").absolute())


T = TypeVar("T", AskInput, OpeningInput)


def _check(*, no_wait: bool, timeout: str | None, **typed: Any) -> None:
    WaitInput.read(no_wait, timeout)
    _question(_picked(AskInput, typed))
    _picked(OpeningInput, typed).check()


def _picked(kind: type[T], typed: dict[str, Any]) -> T:
    return kind(**{name: typed[name] for name in kind._fields})


def _question(asking: AskInput) -> dict[str, Any]:
    """Return the arguments of `Session.submit`. Raises UsageError if nothing would be judged."""
    tool_input = json_object(asking.tool_input, "--input")
    if asking.tool is None and tool_input is not None:
        raise click.UsageError("--input needs --tool NAME")
    if asking.permission is None and (asking.tool is None or tool_input is None):
        raise click.UsageError("give PERMISSION and PATTERN, or --tool NAME with --input JSON")
    if asking.permission is None and asking.always:
        raise click.UsageError(
            "--always needs PERMISSION and PATTERN; for a tool the rules say what an `always` grants"
        )
    # Without a pattern nothing is judged, which rules allow: the pattern was forgotten.
    if asking.permission is not None and not asking.patterns:
        raise click.UsageError(f"give at least one PATTERN after `{asking.permission}` (`*` is any use of it)")
    return {
        "permission": asking.permission or (asking.tool or "").lower(),
        "patterns": asking.patterns,
        "always": asking.always,
        "metadata": json_object(asking.metadata, "--metadata"),
        "tool_name": asking.tool,
        "tool_input": tool_input,
        "agent": asking.agent,
        "cwd": asking.folder,
    }


@command(
    "permission-ledger ask ses_1 bash 'git push' --always 'git push *' --project shop",
    "permission-ledger ask ses_1 edit src/app.py --rules opencode.json --timeout 30s --json",
    """permission-ledger ask ses_1 --tool Bash --input '{"command": "make"}' --no-wait""",
)
@click.argument("session")
@click.argument("permission", required=False)
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@click.option(
    "--always", multiple=True, metavar="PATTERN", help="A pattern that an `always` reply would grant; repeatable."
)
@click.option("--metadata", metavar="JSON", help="An object that is shown to whoever answers.")
@click.option("--tool", metavar="NAME", help="The tool's name; without PERMISSION its input is what is judged.")
@click.option("--input", "tool_input", metavar="JSON", help="The tool's input, an object.")
@click.option("--id", "request_id", metavar="ID", help="Your own request id; asking again with it attaches.")
@with_opening
@click.option("--cwd", metavar="FOLDER", help="The folder that the call would run in (default: here).")
@with_waiting
@checked(_check)
@partial(with_ledger, asks=True)
async def ask(
    ledger: Ledger, output: CommandOutput, *, request_id: str | None, no_wait: bool, timeout: str | None, **typed: Any
) -> int:
    """Ask whether a tool call may run, and wait for the answer.

    Opens the session when it is new. Rules, times and other settings that are given are the session's from here on; without
    --rules it keeps its own. The exit code is the answer: 0 allowed, 3 denied, 4 rejected, 5 expired, 6 cancelled,
    7 still pending, 8 in doubt. Ctrl-C leaves the request pending.
    """
    asking, opening = _picked(AskInput, typed), _picked(OpeningInput, typed)
    question = _question(asking)
    waiting = WaitInput.read(no_wait, timeout)
    session = await open_session(ledger, asking.session, opening)
    request_id = new_request_id() if request_id is None else request_id
    # With --no-wait nobody waits here, and whoever asks again has its own limit.
    shared = {name: question[name] for name in ("metadata", "agent", "cwd")} | {"waits": waiting.seconds}

    async def submit() -> Result:
        """Ask, or go on: a tool alone is asked as its dialect does, required permissions included."""
        operands = await _operands(session, question)
        more: dict[str, Any] = {"request_id": request_id, "actor": local_actor(), "operands": operands, **shared}
        if asking.permission is None and asking.tool is not None:
            return await session.submit_tool(asking.tool, question["tool_input"], **more)
        return await session.submit(**{**question, **more})

    async def waited(result: Result) -> Result:
        if not waiting.wants:
            return result
        return await _wait(session, result, asking, waiting.seconds, request_id, quiet=output.as_json)

    async with watching(ledger, session, opening):
        result = await carry_through(submit, waited, request_id)
    result = await session.remember(result, asking.folder)
    print_result(output, result)
    return OF_OUTCOME[result.outcome]


async def _operands(session: Session, question: dict[str, Any]) -> tuple[Operand, ...] | None:
    """Return the files that the call would execute here; the call runs where this command does."""
    named = ("permission", "patterns", "tool_name", "tool_input", "cwd")
    return await operands_here(Call(*(question[name] for name in named)), session.stream.state.home)


async def _wait(
    session: Session, asked: Result, asking: AskInput, timeout: float | None, request_id: str, *, quiet: bool
) -> Result:
    if not quiet:
        talk(f"waiting for an answer to {asked.request_id}, e.g. `permission-ledger reply {asked.request_id} once`")
    try:
        result = await session.wait(asked.request_id, timeout)
    except asyncio.CancelledError:
        talk(f"the request stays pending; wait for it again with: {_again(asking, request_id)}")
        raise
    if result.outcome is None and not quiet:
        talk(f"hint: wait for it again with: {_again(asking, request_id)}")
    return result


def _again(asking: AskInput, request_id: str) -> str:
    words = ["permission-ledger", "ask", asking.session, f"--id={request_id}", f"--cwd={asking.folder}"]
    options = {"metadata": asking.metadata, "tool": asking.tool, "input": asking.tool_input, "agent": asking.agent}
    words += [f"--{name}={value}" for name, value in options.items() if value is not None]
    words += [f"--always={pattern}" for pattern in asking.always]
    if asking.permission is not None:
        words += ["--", asking.permission, *asking.patterns]
    return shlex.join(words)
