"""The agent of the demo, a process of its own: makes the recorded calls, and obeys the answers.

python -m workers.demo.agent SESSION PROJECT
"""

from __future__ import annotations

import asyncio
import sys

from ledger import Ledger, RefusalError, Session, Timeouts
from ledger.core.requests import make_question
from workers.demo.recording import RecordedAsk, RecordedCall, Recording, recording
from workers.demo.script import AGENT, LOOK_SECONDS, NOBODY_THERE_SECONDS, THINKING_SECONDS


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
    """Wait until somebody is online in the session, or nobody."""
    while bool(await session.present()) is not wanted:  # noqa: ASYNC110 - leases make no event to wait for
        await asyncio.sleep(LOOK_SECONDS)


async def _take_turn(session: Session, turn: tuple[RecordedCall, ...]) -> bool:
    """Make the calls of a turn concurrently; return whether the agent goes on."""
    await asyncio.sleep(THINKING_SECONDS)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(_call(session, call)) for call in turn]
    return all(call.result() for call in calls)


async def _call(session: Session, call: RecordedCall) -> bool:
    for ask in call.asks:
        try:
            await _ask(session, ask)
        except RefusalError as error:
            # Nothing runs, and the follow-up is not asked.
            return error.agent == "continue"
    last = call.asks[-1]
    ran = make_question(last.permission, last.patterns, metadata=last.metadata, always=last.always, tool=_tool(last))
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


async def _ask(session: Session, ask: RecordedAsk) -> None:
    await session.ask(
        ask.permission,
        ask.patterns,
        always=ask.always,
        metadata=ask.metadata,
        request_id=ask.id,
        tool=_tool(ask),
        agent=AGENT,
    )


def _tool(ask: RecordedAsk) -> dict[str, str]:
    return {"message_id": ask.tool.message_id, "call_id": ask.tool.call_id}


async def main(session_id: str, project: str) -> None:
    async with Ledger.connect(actor=AGENT) as ledger:
        await play(ledger, session_id, project, recording())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
