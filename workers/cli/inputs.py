"""Parsers of options: JSON, durations, versions and times. Unreadable input is bad input (exit code 12)."""

from __future__ import annotations

import json
from typing import Any

from ledger.core.errors import InputError
from ledger.core.times import SECOND_MS, parse_duration


def json_object(text: str | None, option: str) -> dict[str, Any] | None:
    """Return the JSON object in an option. Raises InputError."""
    if text is None:
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option} `{_shortened(text)}` is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f'{option} `{_shortened(text)}` is not a JSON object; write it like `{{"key": "value"}}`')
    return value


def seconds(text: str | None, option: str) -> float | None:
    """Return an option's duration in seconds; None for `none` or without the option. Raises InputError."""
    ms = None if text is None else parse_duration(text, option)
    return None if ms is None else ms / SECOND_MS


def version_or_time(text: str | None) -> int | str | None:
    """Return a version if the text is all digits; else the text of a time, which its reader checks."""
    if text is None or not (text.isascii() and text.isdecimal()):
        return text
    if len(text) > 15:
        raise InputError(f"there is no version `{_shortened(text)}`")
    return int(text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _shortened(text: str, most_chars: int = 60) -> str:
    return text if len(text) <= most_chars else f"{text[:most_chars]}…"
