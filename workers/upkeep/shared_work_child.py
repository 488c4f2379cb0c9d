"""A process that does portions of a command's work: from stdin to stdout, one after the other, until stdin ends.

It ends with the command: when that is killed, stdin is closed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import msgspec

from ledger import Ledger
from ledger.core.errors import LedgerError
from workers.runtime.frames import HEAD_BYTES, framed, length_of
from workers.runtime.garbage import collect_rarely
from workers.upkeep.shared_work import Begin, PortionAnswer
from workers.upkeep.works import PORTIONS


class _Kept(logging.Handler):
    """A handler that keeps warnings, which the command tells."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def taken(self) -> list[str]:
        texts, self.texts = self.texts, []
        return texts


def main() -> None:
    """Work until stdin ends, or until an error, which is the last answer."""
    collect_rarely()
    message = _read()
    if message is not None:
        asyncio.run(_work(msgspec.json.decode(message, type=Begin)))


async def _work(begin: Begin) -> None:
    kept = _Kept()
    logging.getLogger().addHandler(kept)
    portion_type = PORTIONS[type(begin.work)]
    try:
        async with Ledger.connect(begin.url, entry_points=False) as ledger:
            kept.taken()  # of the connection: the command's own told the same
            while (message := await asyncio.to_thread(_read)) is not None:
                portion: Any = msgspec.json.decode(message, type=portion_type)
                result = await begin.work.done_by(ledger, portion)
                _write(PortionAnswer(msgspec.Raw(msgspec.json.encode(result)), warnings=kept.taken()))
    except LedgerError as error:
        _write(PortionAnswer(error=error.text, error_type=type(error).__name__, error_data=error.data))


def _read() -> bytes | None:
    """Return the next message; None at the end."""
    head = sys.stdin.buffer.read(HEAD_BYTES)
    return sys.stdin.buffer.read(length_of(head)) if head else None


def _write(answer: PortionAnswer) -> None:
    sys.stdout.buffer.write(framed(msgspec.json.encode(answer)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
