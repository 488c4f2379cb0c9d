"""Tools of plain Python that ask before they run.

@guarded("bash")
async def run(command: str) -> str: ...

with asking(session):
    await run("git push")
"""

from ledger.guarding.context import AskContext, asking, current_asking
from ledger.guarding.decorator import guarded

__all__ = ["AskContext", "asking", "current_asking", "guarded"]
