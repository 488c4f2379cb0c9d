"""The operands of a call that runs on this machine, as they lie on its disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ledger.core.operand_files import operand_rows
from ledger.core.operands import Operand, WantedOperand
from ledger.core.policy import Call
from ledger.policy.operands import operands_wanted


async def operands_here(call: Call, home: str | None) -> tuple[Operand, ...] | None:
    """Return the operands of a call that runs on this machine; None for a call that can have none.

    The loop is not blocked while files are read.
    """
    return await look_here(operands_wanted(call, home))


async def look_here(wanted: tuple[WantedOperand, ...]) -> tuple[Operand, ...] | None:
    """Return wanted files as they are now on this machine; None if nothing is wanted."""
    return await asyncio.to_thread(found_operands, wanted) if wanted else None


def found_operands(wanted: Iterable[WantedOperand]) -> tuple[Operand, ...]:
    """Return the wanted files as they are now, without repeats and in order. Never raises."""
    rows = operand_rows((one.paths, one.is_optional, one.is_glob) for one in wanted)
    return tuple(Operand(**row) for row in rows)
