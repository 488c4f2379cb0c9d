"""The recorded session in the order of play. Its format: `workers/data/README.md`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

import msgspec


class Tool(msgspec.Struct, frozen=True):
    message_id: str
    call_id: str


class RecordedAsk(msgspec.Struct, frozen=True, tag_field="kind", tag="ask"):
    """A call, or the part of it that needs a permission of its own."""

    id: str
    permission: str
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    metadata: dict[str, Any]
    tool: Tool


class RecordedEnd(msgspec.Struct, frozen=True, tag_field="kind", tag="tool_finished"):
    """The end of a call in the recording."""

    call_id: str
    title: str
    output: str
    ok: bool


class Header(msgspec.Struct, frozen=True):
    """The source of the recording, and the rules in force."""

    recorded: str
    project: str
    cwd: str
    prompt: str
    rules: list[dict[str, str]]


class RecordedCall(msgspec.Struct, frozen=True):
    """A tool call: its asks, of which each needs the one before it allowed, and its end."""

    asks: tuple[RecordedAsk, ...]
    end: RecordedEnd


class Recording(msgspec.Struct, frozen=True):
    """A recorded session. `turns` are the model's: the calls of one do not wait for one another."""

    header: Header
    turns: tuple[tuple[RecordedCall, ...], ...]


@cache
def recording() -> Recording:
    head, *lines = files("workers").joinpath("data/recorded-session.jsonl").read_text(encoding="utf-8").splitlines()
    played = [msgspec.json.decode(line, type=RecordedAsk | RecordedEnd) for line in lines]
    ends = {line.call_id: line for line in played if isinstance(line, RecordedEnd)}
    asks = [line for line in played if isinstance(line, RecordedAsk)]
    turns = [list(turn) for _, turn in groupby(asks, key=lambda ask: ask.tool.message_id)]
    return Recording(msgspec.json.decode(head, type=Header), tuple(_calls(turn, ends) for turn in turns))


def _calls(turn: list[RecordedAsk], ends: dict[str, RecordedEnd]) -> tuple[RecordedCall, ...]:
    by_call: dict[str, list[RecordedAsk]] = {}
    for ask in turn:
        by_call.setdefault(ask.tool.call_id, []).append(ask)
    return tuple(RecordedCall(tuple(asks), ends[call_id]) for call_id, asks in by_call.items())
