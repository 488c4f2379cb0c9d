"""The run of the demo."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from ledger import Ledger, LedgerError, Session
from ledger.core.events import SessionClosed
from ledger.stores.port import StreamKey
from projections.lag import streams_behind
from workers.demo.cast import Cast, output_of
from workers.demo.findings import not_as_told, summary, timeline
from workers.demo.recording import recording
from workers.demo.screen import Screen
from workers.demo.script import NOBODY_THERE_SECONDS, PERSON
from workers.demo.story import Story
from workers.runtime.place import LedgerPlace, command_name

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
            _show_timeline(screen, story)
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
    await cast.actor("agent", "workers.demo.agent", *names)
    await cast.actor("person", "workers.demo.person", names[0])
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
    _raise_failure(outcomes[0])
    if not isinstance(outcomes[1], BaseException):
        raise DemoError(outcomes[1].last_words())
    different = not_as_told(story.state)
    if different:
        raise DemoError("\n  ".join(["the session did not go as it was to go", *different]))


def _raise_failure(outcome: object) -> None:
    if isinstance(outcome, Exception):
        raise outcome


async def _tell_until_closed(screen: Screen, session: Session, story: Story) -> None:
    async for event in session.events():
        line = story.tell(event)
        if line is not None:
            screen.story(line)
        if isinstance(event.event, SessionClosed):
            return


def _show_timeline(screen: Screen, story: Story) -> None:
    screen.title(f"Timeline of session {story.state.session_id}, folded from its {story.events} events")
    screen.table(*timeline(story.state, screen.width))
    screen.text(f"  {summary(story.state)}", "dim")


async def _show_checks(screen: Screen, ledger: Ledger, url: str, session_id: str, project: str) -> None:
    await _until_projected(ledger, StreamKey("session", session_id), StreamKey("project", project))
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


async def _until_projected(ledger: Ledger, *keys: StreamKey) -> None:
    try:
        async with asyncio.timeout(CAUGHT_UP_SECONDS):
            while True:
                if not await streams_behind(ledger.store, keys):
                    return
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
    except TimeoutError:
        raise DemoError(f"the projector did not catch up in {CAUGHT_UP_SECONDS:g} s") from None


def _show_next(screen: Screen, place: LedgerPlace | None, session_id: str) -> None:
    screen.title("Next")
    name = command_name()
    if place is None:
        screen.text(f"  {name} demo --keep ./demo-ledger   # and look at it afterwards")
    else:
        screen.text(f"  {place.command()} replay {session_id}   # once more")
    screen.text(f"  {name} up                          # the real thing")
    screen.text(f"  {name} ask ses_1 bash 'git push'   # answer it with `reply`")
