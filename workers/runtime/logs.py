"""The log of a long-running process: one line an event on stderr, as text or as JSON.

Text: `TIME LEVEL WORKER MESSAGE`. JSON: `time`, `level`, `worker`, `logger`, `message` and, with an exception,
`exception`. Times are RFC 3339 in UTC with milliseconds. Passwords and tokens are masked.
"""

from __future__ import annotations

import logging
import re
import traceback
from typing import Final

from ledger.core.times import format_time
from workers.presentation.text import json_line, visible, without_passwords

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
FORMAT_VARIABLE: Final = "PERMISSION_LEDGER_LOG_FORMAT"

CONNECTION: Final = "ledger.stores.redis.wake_ups"
"""The logger of connection losses and reconnections to the server."""

_OURS: Final = ("ledger", "projections", "workers")
_TOKEN: Final = re.compile(r"\b(plt_[A-Za-z0-9]+_)[A-Za-z0-9_-]+")

_QUIET: Final = {
    # It warns when a job is late or still running: the loop was busy, and each deadline's lateness is logged anyway.
    "apscheduler": logging.ERROR,
    # It logs every request at level info, and every slow task in debug mode.
    "httpx": logging.WARNING,
    "asyncio": logging.WARNING,
    "uvicorn": logging.WARNING,
    "litestar": logging.WARNING,
    # It warns of every try while a collector is away.
    "opentelemetry.exporter.otlp.proto.http.trace_exporter": logging.ERROR,
}
"""The lowest level logged of other libraries."""


def set_up(worker: str, level: str = "warning", form: str = "text") -> None:
    """Log to stderr and nowhere else. `worker` names the process in each line."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(worker) if form == "json" else TextLines(worker))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    lowest = getattr(logging, level.upper())
    root.setLevel(lowest)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(lowest, least))
    logging.getLogger(CONNECTION).setLevel(logging.NOTSET)
    logging.captureWarnings(capture=True)  # Python's own warnings take several lines otherwise


class _Lines(logging.Formatter):
    """A record as one line."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker

    def _message(self, record: logging.LogRecord) -> str:
        """Return the message without secrets. The name of a library precedes its message."""
        text = record.getMessage().strip().removeprefix(f"{self._worker}: ")
        if record.name.partition(".")[0] not in _OURS:
            text = f"{record.name}: {text}"
        return without_secrets(text)

    @staticmethod
    def _time(record: logging.LogRecord) -> str:
        return format_time(int(record.created * 1000))


class TextLines(_Lines):
    """`2026-11-21T10:12:00.123Z warning expiry MESSAGE (ValueError: …, workers/expiry.py:12)`."""

    def format(self, record: logging.LogRecord) -> str:
        error = _error_of(record)
        where = "" if error is None else f" ({without_secrets(_in_short(error))})"
        return visible(f"{self._time(record)} {record.levelname.lower()} {self._worker} {self._message(record)}{where}")


class JsonLines(_Lines):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        row = {
            "time": self._time(record),
            "level": record.levelname.lower(),
            "worker": self._worker,
            "logger": record.name,
            "message": self._message(record),
        }
        error = _error_of(record)
        if error is not None:
            row["exception"] = without_secrets("".join(traceback.format_exception(error)).rstrip())
        return json_line(row)


def without_secrets(text: str) -> str:
    """Return the text with passwords in URLs, secrets of tokens, and all known shapes of secrets masked."""
    from ledger.masks.finder import find  # noqa: PLC0415 - slow to import, and only what is logged needs it

    masked = _TOKEN.sub(r"\1***", without_passwords(text))
    for found in reversed(find(masked)):
        masked = f"{masked[: found.start]}***{masked[found.end :]}"
    return masked


def _error_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _in_short(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f", {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
