"""The run of the demo.

Its processes are two workers, an agent and a person. The story is told line by line, and its result as a table, from the
events of the log alone.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger import Ledger, LedgerError, Session
from ledger.core.events import (
    Asked,
    Expired,
    Granted,
    LockPassed,
    LockRequested,
    LockTaken,
    Replied,
    SessionClosed,
    ToolFinished,
)
from ledger.core.policy import Verdict
from ledger.core.times import format_time
from ledger.log.history import LoggedEvent
from ledger.log.viewed import streams_behind
from ledger.session.state import SessionState, Settled
from ledger.session.texts import answerer
from ledger.session.would_run import would_run
from ledger.stores.port import StreamKey
from workers.demo.script import ENDINGS, NOBODY_THERE_SECONDS, PERSON, ExpectedOutcome, recording
from workers.presentation.text import fitted, revealed, visible
from workers.presentation.timeline import TimelineFold
from workers.runtime.children import end, own_command, own_environment, own_module
from workers.runtime.place import LedgerPlace, command_name

PIPE_WIDTH_CHARS: Final = 160
"""The width without a terminal, where lines may be long."""

COLOURS: Final = {
    "allowed": "green",
    "waits": "yellow",
    "denied": "red",
    "rejected": "red",
    "corrected": "red",
    "expired": "magenta",
}


class ScreenLine(NamedTuple):
    """One line of the story: time (ms from the beginning), actor, sentence, and the outcome that colours it."""

    ms: int
    who: str
    text: str
    outcome: str = ""


class Screen:
    """stdout for a person."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        if os.environ.get("NO_COLOR"):
            # No escape sequences at all: bold and dim are some too.
            self.console = Console(highlight=False, color_system=None)
        if not self.console.is_terminal:
            self.console.width = PIPE_WIDTH_CHARS

    def text(self, text: str = "", style: str = "") -> None:
        self.console.print(Text(visible(text), style))

    def title(self, text: str) -> None:
        self.text()
        self.text(text, "bold")

    def fact(self, name: str, value: str) -> None:
        """Print a name and its value, the value wrapped in its own column."""
        grid = _grid(12)
        grid.add_column(ratio=1)
        grid.add_row(Text(f"  {name}", "dim"), Text(visible(value)))
        self._print(grid)

    def story(self, line: ScreenLine) -> None:
        grid = _grid(7, 8)
        grid.add_column(ratio=1)
        text = Text(visible(line.text), COLOURS.get(line.outcome, ""))
        grid.add_row(Text(f"{line.ms / 1000:6.2f}s", "dim"), Text(visible(line.who), "bold"), text)
        self._print(grid)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for number, column in enumerate(columns):
            table.add_column(f"  {column}" if number == 0 else column, no_wrap=True, overflow="ellipsis")
        for first, *cells in rows:
            table.add_row(Text(f"  {visible(first)}"), *(Text(visible(cell), COLOURS.get(cell, "")) for cell in cells))
        self._print(table)

    def _print(self, table: Table) -> None:
        if self.console.is_terminal:
            self.console.print(table)
            return
        with self.console.capture() as captured:
            self.console.print(table)
        # Columns are padded with spaces, which a pipe does not need.
        for line in captured.get().splitlines():
            self.console.print(Text(line.rstrip()), soft_wrap=True)


def _grid(*widths: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for width in widths:
        grid.add_column(width=width, no_wrap=True, overflow="ellipsis")
    return grid


TAIL_LINES: Final = 8


class Member(NamedTuple):
    """One process, and its output on stderr."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def failed(self) -> bool:
        return self.process.returncode not in (None, 0)

    def last_words(self) -> str:
        """Return its exit code and the end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n  ".join([f"the {self.name} ended with exit code {self.process.returncode}", *lines])


class Cast:
    """The processes, started one by one and ended together."""

    def __init__(self, url: str, logs: Path) -> None:
        # Not on the command lines, where every user of the machine could read a password in it.
        self._environment = {**own_environment(), "PERMISSION_LEDGER_URL": url}
        self._logs = logs
        self.members: list[Member] = []

    async def worker(self, name: str) -> None:
        """Start an expiry worker or a projector, as `permission-ledger worker` does."""
        await self._start(name, own_command("worker", name, "--with-parent", str(os.getpid())))

    async def actor(self, name: str, *arguments: str) -> None:
        await self._start(name, own_module("workers.demo.actors", name, *arguments))

    async def _start(self, name: str, command: list[str]) -> None:
        log = self._logs / f"{name}.log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        self.members.append(Member(name, process, log))

    async def until_one_fails(self) -> Member:
        """Return the first that ends with another exit code than 0; waits for ever while none does."""
        ending = {asyncio.create_task(one.process.wait(), name=f"wait for {one.name}"): one for one in self.members}
        try:
            waiting = set(ending)
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if ending[task].failed:
                        return ending[task]
                if not waiting:
                    await asyncio.Event().wait()
        finally:
            for task in ending:
                task.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.gather(*(end(one.process) for one in self.members))


async def output_of(url: str, *arguments: str) -> tuple[int, str]:
    """Return exit code and output of one of our commands."""
    process = await asyncio.create_subprocess_exec(
        *own_command(*arguments),
        env={**own_environment(), "PERMISSION_LEDGER_URL": url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        await end(process)
    return process.returncode or 0, output.decode(errors="replace")


TIMELINE_COLUMNS: Final = ("versions", "call", "outcome", "decided by", "asked", "after")

BESIDES_CHARS: Final = 83
"""The width of the columns besides the call; a narrow screen omits the last two of them."""

LAST_TWO_CHARS: Final = 29
NARROW_CHARS: Final = 120
CALL_CHARS_MAX: Final = 60


def timeline(state: SessionState, width: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and a row for each request, in order of asking, for a screen of `width` characters."""
    narrow = width < NARROW_CHARS
    call_chars = min(width - BESIDES_CHARS + (LAST_TWO_CHARS if narrow else 0), CALL_CHARS_MAX)
    rows = [_row(settled, call_chars) for settled in _in_order(state)]
    return (TIMELINE_COLUMNS[:-2], [row[:-2] for row in rows]) if narrow else (TIMELINE_COLUMNS, rows)


def _in_order(state: SessionState) -> list[Settled]:
    return sorted(state.settled.values(), key=lambda settled: settled.request.version)


def _row(settled: Settled, call_chars: int) -> tuple[str, ...]:
    request = settled.request
    at_once = settled.version == request.version
    call = would_run(request).as_call(request.permission, None)
    return (
        str(request.version) if at_once else f"{request.version} → {settled.version}",
        fitted(revealed(call), call_chars),
        settled.outcome,
        _decided_by(settled),
        format_time(request.asked_ms)[11:-1],
        "at once" if at_once else f"{(settled.at_ms - request.asked_ms) / 1000:.2f} s",
    )


def summary(state: SessionState) -> str:
    """Return the number of requests, and their outcomes."""
    outcomes = Counter(settled.outcome for settled in _in_order(state))
    ended = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    return f"{sum(outcomes.values())} requests: {ended}"


def _decided_by(settled: Settled) -> str:
    if settled.outcome == "expired":
        return "time"
    if settled.reply is None:
        return "a grant" if settled.request.grants else "a rule"
    cascade = ", cascade" if settled.cause is not None else ""
    return f"{answerer(settled.by.name, settled.told)} ({settled.reply}{cascade})"


def not_as_told(state: SessionState) -> list[str]:
    """Return every difference from the script; empty if there is none."""
    happened = {
        request_id: ExpectedOutcome(settled.outcome, settled.reply, settled.cause.kind if settled.cause else None)
        for request_id, settled in state.settled.items()
    }
    different = [
        f"{request_id}: {_say(happened.get(request_id))} instead of {_say(ending)}"
        for request_id, ending in ENDINGS.items()
        if happened.get(request_id) != ending
    ]
    unexpected = [
        f"{request_id}: asked, which was not to happen" for request_id in happened if request_id not in ENDINGS
    ]
    waiting = [f"{request_id}: still pending" for request_id in state.pending]
    still_open = [] if state.closed_ms is not None else ["the session was not closed"]
    return [*different, *unexpected, *waiting, *still_open]


def _say(ending: ExpectedOutcome | None) -> str:
    return " ".join(filter(None, ending)) if ending else "not asked"


_UNTOLD: Final = (Granted, LockPassed, LockRequested, LockTaken, ToolFinished)
"""Events without interest to a newcomer, or said by the line before."""

_VERDICTS: Final = {Verdict.ALLOW: "allowed", Verdict.ASK: "waits", Verdict.DENY: "denied"}


class Story:
    """Tells the events of a session as they come."""

    def __init__(self, session_id: str) -> None:
        self.events = 0
        self._fold = TimelineFold(session_id)
        self._began_ms: int | None = None

    @property
    def state(self) -> SessionState:
        return self._fold.state

    def tell(self, logged: LoggedEvent) -> ScreenLine | None:
        """Return the event as a line; None for an event without interest to a newcomer."""
        line = self._fold.line(logged)
        self.events += 1
        if self._began_ms is None:
            self._began_ms = logged.ms
        if isinstance(logged.event, _UNTOLD):
            return None
        return ScreenLine(logged.ms - self._began_ms, line.actor, line.text, _outcome(logged.event))


def _outcome(event: object) -> str:
    match event:
        case Asked():
            return _VERDICTS[event.verdict]
        case Replied():
            return event.outcome
        case Expired():
            return "expired"
        case _:
            return ""


STORY_SECONDS: Final = 60.0
"""The time limit; on a quiet machine the story takes six seconds."""

CAUGHT_UP_SECONDS: Final = 20.0
LOOK_AGAIN_SECONDS: Final = 0.02


class DemoError(LedgerError):
    """The demo did not follow its script."""

    code = "DEMO"


async def show(url: str | None, keep: Path | None) -> None:
    """Play the story and print it, at a URL, in a folder that is kept, or in a temporary one.

    Raises DemoError for any difference from the script, StoreError without a server, InputError for both places.
    """
    with tempfile.TemporaryDirectory(prefix="permission-ledger-demo-") as temporary:
        logs = Path(temporary) / "logs"
        logs.mkdir()
        stays = url is not None or keep is not None
        place = LedgerPlace(url, keep if stays else Path(temporary) / "data", home_option="--keep")
        screen = Screen()
        async with Ledger.connect(place.url) as ledger, Cast(place.url, logs) as cast:
            session_id, project = await _names(ledger)
            await _begin(screen, cast, place, (session_id, project))
            story = Story(session_id)
            await _tell(screen, Session(ledger, session_id), story, cast)
            screen.title(f"Timeline of session {session_id}, folded from its {story.events} events")
            screen.table(*timeline(story.state, screen.console.width))
            screen.text(f"  {summary(story.state)}", "dim")
            await _show_checks(screen, ledger, place.url, session_id, project)
        _show_next(screen, place if stays else None, session_id)


async def _names(ledger: Ledger) -> tuple[str, str]:
    """Return a session and a project of this run alone: a kept folder may hold those of earlier ones."""
    known = {session async for session in ledger.sessions()}
    number = next(number for number in range(1, len(known) + 2) if _numbered("demo", number) not in known)
    return _numbered("demo", number), _numbered(recording().header.project, number)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


async def _begin(screen: Screen, cast: Cast, place: LedgerPlace, names: tuple[str, str]) -> None:
    header = recording().header
    await cast.worker("expiry")
    await cast.worker("projector")
    await cast.actor("agent", *names)
    await cast.actor("person", names[0])
    screen.text("permission-ledger: what a coding agent may do, asked, answered and recorded", "bold")
    screen.text()
    screen.fact("server", place.described())
    screen.fact("processes", ", ".join(f"{one.name} {one.process.pid}" for one in cast.members))
    screen.fact("the agent", f"plays the calls of a real session ({header.recorded}): “{header.prompt}”")
    screen.fact("the person", f"{PERSON} answers from another process, then leaves")
    screen.fact("time", f"with nobody there a request waits {NOBODY_THERE_SECONDS} s here, not 7 days")
    screen.title("What happens, as the log tells it")


async def _tell(screen: Screen, session: Session, story: Story, cast: Cast) -> None:
    telling = asyncio.create_task(_tell_until_closed(screen, session, story), name="tell")
    failing = asyncio.create_task(cast.until_one_fails(), name="failing")
    try:
        async with asyncio.timeout(STORY_SECONDS):
            await asyncio.wait((telling, failing), return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        raise DemoError(f"the story did not come to its end in {STORY_SECONDS:g} s; try again") from None
    finally:
        for task in (telling, failing):
            task.cancel()
        outcomes = await asyncio.gather(telling, failing, return_exceptions=True)
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
    if not isinstance(outcomes[1], BaseException):
        raise DemoError(outcomes[1].last_words())
    different = not_as_told(story.state)
    if different:
        raise DemoError("\n  ".join(["the session did not go as it was to go", *different]))


async def _tell_until_closed(screen: Screen, session: Session, story: Story) -> None:
    async for event in session.events():
        line = story.tell(event)
        if line is not None:
            screen.story(line)
        if isinstance(event.event, SessionClosed):
            return


async def _show_checks(screen: Screen, ledger: Ledger, url: str, session_id: str, project: str) -> None:
    keys = (StreamKey("session", session_id), StreamKey("project", project))
    try:
        async with asyncio.timeout(CAUGHT_UP_SECONDS):
            while await streams_behind(ledger.store, keys):  # noqa: ASYNC110 - nobody tells when it has
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
    except TimeoutError:
        raise DemoError(f"the projector did not catch up in {CAUGHT_UP_SECONDS:g} s") from None
    commands = (("verify", session_id), ("rebuild", "--verify"))
    screen.title("Is the log whole, and are the views what it says?")
    for command, (code, output) in zip(
        commands, await asyncio.gather(*(output_of(url, *one) for one in commands)), strict=True
    ):
        screen.text(f"  $ permission-ledger {' '.join(command)}", "dim")
        for line in output.splitlines():
            screen.text(f"  {line}", "green" if code == 0 else "red")
        if code != 0:
            raise DemoError(f"`permission-ledger {' '.join(command)}` ended with exit code {code}")


def _show_next(screen: Screen, place: LedgerPlace | None, session_id: str) -> None:
    screen.title("Next")
    name = command_name()
    if place is None:
        screen.text(f"  {name} demo --keep ./demo-ledger   # and look at it afterwards")
    else:
        screen.text(f"  {place.command()} replay {session_id}   # once more")
    screen.text(f"  {name} up                          # the real thing")
    screen.text(f"  {name} ask ses_1 bash 'git push'   # answer it with `reply`")
