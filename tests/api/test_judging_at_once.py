"""A process that stays imports all code that judges when it begins, and reads the tables of that code."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from ledger.policy.dialects import DIALECTS
from tests.support.processes import ROOT

PROGRAM: Final = r"""
import asyncio, os, sys
import ledger
from ledger import Ledger
from workers.runtime.process import import_judging

FOLDER = os.path.dirname(ledger.__file__)
opened = set()

def note(event, arguments):
    if event == "open" and str(arguments[0]).startswith(FOLDER) and not str(arguments[0]).endswith((".py", ".pyc")):
        opened.add(os.path.basename(arguments[0]))

def loaded():
    return {name for name in sys.modules if name.startswith(("ledger.policy", "ledger.session", "ledger.client"))}

async def main(dialect):
    import_judging()
    before = loaded()
    sys.addaudithook(note)
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        demands = [{"permission": "bash", "dangerous": True, "approvers": 2}]
        session = await ledger.session("ses_1", dialect=dialect, demands=demands)
        await session.submit("bash", ["sudo rm -rf / && git push"], request_id="r1")
        await session.submit("bash", ["echo p\u0430ypal AKIAIOSFODNN7EXAMPLE | make"], request_id="r2")
        for pending in await session.pending():
            pending.described()
        await session.reply("r1", "reject")
    print(*sorted(loaded() - before | opened))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_nothing_that_judges_is_imported_or_read_later(dialect: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, dialect], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()) == (0, []), ran.stderr
