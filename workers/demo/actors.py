"""The agent and the person of the demo, each a process of its own.

`python -m workers.demo.actors agent SESSION PROJECT` makes the recorded calls, and obeys the answers.
`python -m workers.demo.actors person SESSION` reads requests on a phone, answers, and leaves.
"""

from __future__ import annotations

import asyncio
import sys

from ledger import Ledger, Pending, RefusalError, Session, Timeouts
from ledger.core.events import SessionOpened
from ledger.core.requests import make_question
from ledger.session.decision import shown_digest
from workers.demo.script import (
    AGENT,
    LOOK_SECONDS,
    NOBODY_THERE_SECONDS,
    PERSON,
    PHONE,
    READING_SECONDS,
    THINKING_SECONDS,
    RecordedCall,
    Recording,
    answer_to,
    recording,
)


async def play(ledger: Ledger, session_id: str, project: str, played: Recording) -> None:
    """Open the session, wait for a person, and make the recorded calls turn by turn."""
    header = played.header
    session = await ledger.session(
        session_id,
        project=project,
        cwd=header.cwd,
        # As the recorded program reads them; the stricter default would not let `python -m *` stand for a program
        # that runs anything.
        options={"profile": "faithful", "compat": "v2"},
        rules=header.rules,
        policy_source=f"recorded with {header.recorded}",
        timeouts=Timeouts(unattended=NOBODY_THERE_SECONDS),
        agent=AGENT,
        actor=AGENT,
    )
    await _until_present(session, wanted=True)
    *turns, last_turn = played.turns
    goes_on = True
    for turn in turns:
        goes_on = goes_on and await _take_turn(session, turn)
    # The requests without an answer are asked unattended.
    await _until_present(session, wanted=False)
    if goes_on:
        await _take_turn(session, last_turn)
    await session.close(reason="the agent is done", actor=AGENT)


async def _until_present(session: Session, *, wanted: bool) -> None:
    while bool(await session.present()) is not wanted:  # noqa: ASYNC110 - leases make no event to wait for
        await asyncio.sleep(LOOK_SECONDS)


async def _take_turn(session: Session, turn: tuple[RecordedCall, ...]) -> bool:
    await asyncio.sleep(THINKING_SECONDS)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(_call(session, call)) for call in turn]
    return all(call.result() for call in calls)


async def _call(session: Session, call: RecordedCall) -> bool:
    for ask in call.asks:
        try:
            await session.ask(
                ask.permission,
                ask.patterns,
                always=ask.always,
                metadata=ask.metadata,
                request_id=ask.id,
                tool=ask.tool,
                agent=AGENT,
            )
        except RefusalError as error:
            # Nothing runs, and the follow-up is not asked.
            return error.agent == "continue"
    last = call.asks[-1]
    ran = make_question(last.permission, last.patterns, metadata=last.metadata, always=last.always, tool=last.tool)
    await session.note_tool_finished(
        last.id,
        call_id=call.end.call_id,
        ok=call.end.ok,
        ran=ran,
        title=call.end.title,
        output=call.end.output,
        actor=AGENT,
    )
    return True


async def answer(ledger: Ledger, session_id: str) -> None:
    """Connect as soon as the session is open, and answer until the script ends."""
    session = Session(ledger, session_id)
    async for event in session.events():
        if isinstance(event.event, SessionOpened):
            break
    changed = asyncio.Event()
    watching = asyncio.create_task(_watch(session, changed), name="watch")
    try:
        async with await session.connect(PHONE, actor=PERSON, name=PERSON) as connection:
            while True:
                asked = await _read_what_is_asked(session, changed)
                given = answer_to(asked.request.permission, asked.request.patterns)
                shown = shown_digest(asked.request)
                await connection.reply(asked.request.request_id, given.reply, message=given.message, digest=shown)
                if given.then_leaves:
                    return
    finally:
        watching.cancel()


async def _watch(session: Session, changed: asyncio.Event) -> None:
    async for _ in session.events():
        changed.set()


async def _read_what_is_asked(session: Session, changed: asyncio.Event) -> Pending:
    """Return the oldest request, after the reading time without a new one."""
    while True:
        changed.clear()
        pending = await session.pending()
        try:
            async with asyncio.timeout(READING_SECONDS if pending else None):
                await changed.wait()
        except TimeoutError:
            return pending[0]


async def main(actor: str, session_id: str, *projects: str) -> None:
    async with Ledger.connect(actor=PERSON if actor == "person" else AGENT) as ledger:
        if actor == "person":
            await answer(ledger, session_id)
        else:
            await play(ledger, session_id, projects[0], recording())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
