"""The sessions of the filled ledger: ten events each, under the same two rules."""

from __future__ import annotations

import hashlib
from typing import Final

from ledger import Ledger

RULES: Final = (
    {"permission": "bash", "pattern": "*", "action": "ask"},
    {"permission": "bash", "pattern": "git *", "action": "allow"},
)
EVENTS_COUNT: Final = 10
PROJECTS_COUNT: Final = 40
OPEN_EVERY_COUNT: Final = 10
"""Every so many-th session is left open with a grant in force."""


def session_of(number: int) -> str:
    return f"ses_{number:08d}"


def project_of(number: int) -> str:
    return f"project-{number % PROJECTS_COUNT}"


def request_of(number: int) -> str:
    """Return the id of the session's request that a person answers: 30 characters without a pattern."""
    return "per_" + hashlib.sha256(str(number).encode()).hexdigest()[:26]


async def live(ledger: Ledger, number: int, pending_count: int) -> None:
    """Write one session of ten events; the first ones of all wait for a person at their end."""
    session = await ledger.session(session_of(number), project=project_of(number), agent="agent", rules=RULES)
    waits, stays = number < pending_count, number % OPEN_EVERY_COUNT == 0
    for count in range(8 if waits else 4 if stays else 3):
        await session.ask("bash", [f"git show {number}-{count}"])
    await session.submit("bash", ["npm test"], request_id=request_of(number), always=["npm *"])
    if waits:
        return
    await session.reply(request_of(number), "once", actor="ann")
    claim = await session.claim(request_of(number))
    await session.finish(request_of(number), claim.claim_id, ok=True)
    await session.grant("bash", f"make target-{number} *", actor="ann")
    if not stays:
        await session.close()
