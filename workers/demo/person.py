"""The person of the demo, a process of its own: reads requests on a phone, answers, and leaves.

python -m workers.demo.person SESSION
"""

from __future__ import annotations

import asyncio
import sys

from ledger import Ledger, Pending, Session
from ledger.core.events import SessionOpened
from ledger.session.rounds import shown_digest
from workers.demo.script import PERSON, PHONE, READING_SECONDS, answer_to


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


async def main(session_id: str) -> None:
    async with Ledger.connect(actor=PERSON) as ledger:
        await answer(ledger, session_id)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
