"""Calls of the append script and their replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis.exceptions import ResponseError

from ledger.stores.clock import Clock
from ledger.stores.keys import Keys
from ledger.stores.port import Answered, Append, Appended, AppendResult, Behind, Conflict, OutsideWindow, Position
from ledger.stores.redis.link import CommandLine, LinkError
from ledger.stores.redis.replies import due_arguments, entries_of
from ledger.stores.redis.script import Script

_SERVER_CLOCK = """local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_TEST_CLOCK = "local now = tonumber(table.remove(ARGV))\n"


def append_script(*, test_clock: bool) -> Script:
    """Return the append script; `test_clock` gives the variant that takes the time as its last argument."""
    script = Script.named("append.lua")
    if not test_clock:
        return script
    text = script.text.replace(_SERVER_CLOCK, _TEST_CLOCK)
    assert text != script.text, "append.lua no longer reads its clock as it did"
    return Script(text)


class AppendCalls:
    """Encoding of appends as server commands, and decoding of replies as results of the port."""

    def __init__(self, keys: Keys, clock: Clock, *, moved_by_a_test: bool) -> None:
        self.script = append_script(test_clock=moved_by_a_test)
        self._keys = keys
        self._clock = clock
        self._moved_by_a_test = moved_by_a_test

    def command(self, append: Append) -> CommandLine:
        key, keys = append.key, self._keys.of_append(append.key)
        due_mode, due_value = due_arguments(append.due)
        return (
            "EVALSHA",
            self.script.sha,
            3,
            keys.stream,
            keys.due,
            keys.feed,
            append.after.ms,
            append.after.version,
            "" if append.not_before_ms is None else append.not_before_ms,
            "" if append.not_after_ms is None else append.not_after_ms,
            due_mode,
            due_value,
            key.name,
            keys.channel,
            *append.payloads,
            *((self._clock.now_ms(),) if self._moved_by_a_test else ()),
        )

    def answer(self, reply: list[Any]) -> AppendResult:
        """Decode the script's reply and update the clock with its time."""
        kind, now_ms = reply[0], int(reply[1])
        self._clock.observe(now_ms)
        if kind == 1:
            return Appended(int(reply[2]), now_ms)
        if kind == 0:
            return Conflict(entries_of(reply[3]), Position.parse(reply[2].decode()), now_ms)
        if kind == -1:
            return Behind(Position.parse(reply[2].decode()), now_ms)
        return OutsideWindow(int(reply[2]), now_ms)


class FirstAttempt:
    """The receiver of the reply to an append that was sent once; `again` is called where it has to be sent again.

    Its argument is True when this attempt may have been written.
    """

    __slots__ = ("_again", "_answered", "_calls", "since")

    def __init__(self, calls: AppendCalls, answered: Answered, again: Callable[[bool], None]) -> None:
        self._calls = calls
        self._answered = answered
        self._again = again
        self.since = 0.0

    def take(self, reply: Any) -> None:
        """Deliver a reply. After a refusal the append is sent again: the server may lack only the script."""
        if isinstance(reply, ResponseError):
            self._again(False)
            return
        try:
            result = self._calls.answer(reply)
        except Exception as error:  # noqa: BLE001 - raised here it would reach the connection, not the caller
            self._answered(error, ())
        else:
            self._answered(result, ())

    def fail(self, error: LinkError) -> None:
        self._again(error.sent)
