"""`ask`: for agents without Python, and for trying a ruleset."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ledger.client.calls import carry_through
from ledger.client.claims import operands_here
from ledger.core.ids import new_request_id
from ledger.core.operands import Operand
from ledger.core.policy import Call
from workers.cli.base import checked, command, local_actor, with_asking_ledger
from workers.cli.exits import OF_OUTCOME
from workers.cli.inputs import json_object
from workers.cli.opening import OpeningInput, WaitInput, open_session, watching, with_opening, with_waiting
from workers.cli.output import CommandOutput, talk
from workers.cli.results import print_result

if TYPE_CHECKING:
    from ledger import Ledger, Result, Session


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
    """Check everything that can be checked without a ledger."""
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
    examples=(
        "permission-ledger ask ses_1 bash 'git push' --always 'git push *' --project shop",
        "permission-ledger ask ses_1 edit src/app.py --rules opencode.json --timeout 30s --json",
        """permission-ledger ask ses_1 --tool Bash --input '{"command": "make"}' --no-wait""",
    )
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
@with_asking_ledger
async def ask(
    ledger: Ledger, output: CommandOutput, *, request_id: str | None, no_wait: bool, timeout: str | None, **typed: Any
) -> int:
    """Ask whether a tool call may run, and wait for the answer.

    Opens the session when it is new; rules that a session has stay unless --rules is given. Rules, times and other settings are those of
    the session from here on, not of this ask alone. The exit code is the
    answer: 0 allowed, 3 denied, 4 rejected, 5 expired, 6 cancelled, 7 still pending, 8 in doubt. Ctrl-C leaves the
    request pending.
    """
    asking, opening = _picked(AskInput, typed), _picked(OpeningInput, typed)
    question = _question(asking)
    waiting = WaitInput.read(no_wait, timeout)
    session = await open_session(ledger, asking.session, opening)
    request_id = new_request_id() if request_id is None else request_id
    # With --no-wait nobody waits here, and whoever asks again has its own limit.
    submit = _submitting(session, asking, {**question, "waits": waiting.seconds}, request_id)

    async def waited(result: Result) -> Result:
        if not waiting.wants:
            return result
        return await _wait(session, result, asking, waiting.seconds, request_id, quiet=output.as_json)

    async with watching(ledger, session, opening):
        result = await carry_through(submit, waited, request_id)
    result = await session.remember(result, asking.folder)
    print_result(output, result)
    return OF_OUTCOME[result.outcome]


def _submitting(
    session: Session, asking: AskInput, question: dict[str, Any], request_id: str
) -> Callable[[], Awaitable[Result]]:
    """Return the ask or its continuation: a tool alone is asked as its dialect does, required permissions included."""
    if asking.permission is not None or asking.tool is None:
        return lambda: _asked(session, question, request_id)
    shared = {name: question[name] for name in ("metadata", "agent", "cwd", "waits")}
    return lambda: _tool_asked(session, question, shared, request_id)


async def _asked(session: Session, question: dict[str, Any], request_id: str) -> Result:
    operands = await _operands(session, question)
    return await session.submit(**question, operands=operands, request_id=request_id, actor=local_actor())


async def _tool_asked(session: Session, question: dict[str, Any], shared: dict[str, Any], request_id: str) -> Result:
    return await session.submit_tool(
        question["tool_name"],
        question["tool_input"],
        request_id=request_id,
        actor=local_actor(),
        operands=await _operands(session, question),
        **shared,
    )


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
    """Return the command that attaches to a request: the same content, and its id."""
    words = ["permission-ledger", "ask", asking.session, f"--id={request_id}", f"--cwd={asking.folder}"]
    options = {"metadata": asking.metadata, "tool": asking.tool, "input": asking.tool_input, "agent": asking.agent}
    words += [f"--{name}={value}" for name, value in options.items() if value is not None]
    words += [f"--always={pattern}" for pattern in asking.always]
    if asking.permission is not None:
        words += ["--", asking.permission, *asking.patterns]
    return shlex.join(words)
