"""The session of a command that asks: opened with the options as typed, or attached to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click

from ledger import Timeouts
from ledger.client.policy_files import PolicyFiles, PolicyWatch, watch_policy
from ledger.core.errors import InputError
from ledger.core.events import Extending, WhenFrozen
from ledger.core.ids import check_id
from ledger.core.timeouts import RunLimits
from ledger.policy import PolicySource
from ledger.policy.dialects import DEFAULT_DIALECT, dialect_named
from ledger.policy.loader import own_home
from ledger.policy.stored_rules import placed
from ledger.session.state import SessionState
from workers.cli.base import local_actor
from workers.cli.config.places import files_are_read
from workers.cli.deadlines import with_run_limits
from workers.cli.inputs import seconds
from workers.runtime.project_rules import ProjectRules, project_of_source, read_rule_file, source_name
from workers.transport.trusted import trust_file

if TYPE_CHECKING:
    from ledger import Ledger, Session


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


def with_opening(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of OpeningInput to a command."""
    for option in reversed(_OPENING):
        function = option(function)
    return function


def with_waiting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of WaitInput as the arguments `no_wait` and `timeout`."""
    for option in reversed(_WAITING):
        function = option(function)
    return function


_OPENING = (
    click.option("--project", metavar="PROJECT", help="The session's project, when this opens the session."),
    click.option(
        "--rules", metavar="FILE", help="Rules for the session from here on (.json or .jsonc); followed while waiting."
    ),
    click.option("--dialect", metavar="DIALECT", help="The dialect of the rules (default: opencode)."),
    click.option(
        "--attended",
        metavar="DURATION",
        help="Time for an answer while somebody is there, for this ask and the later ones of the session (60s).",
    ),
    click.option(
        "--unattended",
        metavar="DURATION",
        help="Time for an answer otherwise, for this ask and the later ones of the session (7d).",
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
_WAITING = (
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
    return watch_policy(ledger, session, lambda: _read(opening), files=[trust_file()], policy_source=opening.rules)


def _read(opening: OpeningInput) -> PolicySource:
    source = opening.policy()
    assert source is not None, "only where there is a file"
    return source


def _timeouts(state: SessionState, opening: OpeningInput) -> Timeouts | None:
    """Return the typed deadlines over those of the session; None if none was typed."""
    if opening.attended is None and opening.unattended is None:
        return None
    return Timeouts.of(state.settings).stated(opening.deadlines, "--{}")
