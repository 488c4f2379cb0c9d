"""Calls of the append script and their replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ledger.core.events import Presence
from ledger.core.freezes import reach_of
from ledger.stores.clock import Clock
from ledger.stores.keys import Keys
from ledger.stores.port import (
    Answered,
    Append,
    Appended,
    AppendResult,
    Behind,
    Blocked,
    Conflict,
    OthersPresent,
    OutsideWindow,
    Position,
    Unverified,
)
from ledger.stores.redis.link import CommandLine, LinkError
from ledger.stores.redis.refusals import Refusal
from ledger.stores.redis.replies import clients_of, due_arguments, entries_of, lease_of
from ledger.stores.redis.script import Script
from ledger.stores.redis.servers import Commands

_SERVER_CLOCK = """local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_LOOKED_UP: Final = 3
"""The place of the server's id in the reply to a written append."""

_OTHERS_PRESENT: Final = 5

_NOBODY: Final = b"0\0"

_TEST_CLOCK = "local now = tonumber(table.remove(ARGV))\n"


def append_script(*, test_clock: bool) -> Script:
    """Return the append script; `test_clock` as in `clocked_script`."""
    return clocked_script("append.lua", test_clock=test_clock)


def clocked_script(name: str, *, test_clock: bool) -> Script:
    """Return a script that reads the clock; `test_clock` gives the variant that takes the time as its last argument."""
    script = Script.named(name)
    if not test_clock:
        return script
    text = script.text.replace(_SERVER_CLOCK, _TEST_CLOCK)
    assert text != script.text, f"{name} no longer reads its clock as it did"
    return Script(text)


class AppendCalls:
    """Encoding of appends as server commands, and decoding of replies as results of the port."""

    def __init__(self, keys: Keys, clock: Clock, *, moved_by_a_test: bool) -> None:
        self.script = append_script(test_clock=moved_by_a_test)
        self._keys = keys
        self._clock = clock
        self._moved_by_a_test = moved_by_a_test

    def command(self, append: Append, server: str = "") -> CommandLine:
        """Return the call of the script; `server` is the server's id as the connection knows it."""
        keys = self._keys.of_append(append.key)
        due_mode, due_value = ("", "") if append.due is None else due_arguments(append.due)
        return (
            "EVALSHA",
            self.script.sha,
            # On a cluster that moves a slot, a call that names a key which nobody has set yet would have to wait.
            3 + append.allows + (append.present is not None),
            keys.stream,
            keys.due,
            keys.feed,
            *((keys.freeze,) if append.allows else ()),
            *((keys.lease,) if append.present is not None else ()),
            append.after.ms,
            append.after.version,
            "" if append.not_before_ms is None else append.not_before_ms,
            "" if append.not_after_ms is None else append.not_after_ms,
            due_mode,
            due_value,
            keys.name,
            keys.channel,
            f"{server} {reach_of(append.project)}" if append.allows else "",
            _assumed(append.present) if append.present else "" if append.present is None else _NOBODY,
            *[field or "" for fields in append.payloads for field in fields],
            *(self.clock_arguments() if self._moved_by_a_test else ()),
        )

    def clocked(self, name: str) -> Script:
        """Return another script that reads the clock; its last arguments are `clock_arguments`."""
        return clocked_script(name, test_clock=self._moved_by_a_test)

    def clock_arguments(self) -> tuple[int, ...]:
        return (self._clock.now_ms(),) if self._moved_by_a_test else ()

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
        if kind == 2:
            return OutsideWindow(int(reply[2]), now_ms)
        if kind == 3:
            return Blocked(reply[3], Position.parse(reply[2].decode()), now_ms)
        if kind == _OTHERS_PRESENT:
            return OthersPresent(clients_of(reply[2]) if len(reply) > 2 else None, now_ms)
        return Unverified(reply[2].decode(), now_ms)


def _assumed(present: tuple[Presence, ...]) -> bytes:
    return b"%d\0%b" % (len(present), b"".join(b"%b\0" % lease_of(one) for one in present))


def server_in(reply: Any) -> str | None:
    """Return the server's id, where the script looked it up for a written append."""
    return reply[_LOOKED_UP].decode() if type(reply) is list and len(reply) > _LOOKED_UP and reply[0] == 1 else None


class FirstAttempt:
    """The receiver of the reply to an append that was sent once; `again` is called where it has to be sent again.

    Its argument is True when this attempt may have been written.
    """

    __slots__ = ("_again", "_answered", "_calls", "_link", "since")
    open = 1

    def __init__(self, calls: AppendCalls, link: Commands, answered: Answered, again: Callable[[bool], None]) -> None:
        self._calls = calls
        self._link = link
        self._answered = answered
        self._again = again
        self.since = 0.0

    def take(self, replies: list[Any]) -> None:
        """Deliver the reply. After a refusal the append is sent again: the server may lack only the script."""
        (reply,) = replies
        if isinstance(reply, Refusal):
            self._again(False)
            return
        try:
            result = self._calls.answer(reply)
            if len(reply) > _LOOKED_UP and (server := server_in(reply)) is not None:
                # The reply came over the present connection.
                self._link.note_server(server, self._link.connection)
        except Exception as error:  # noqa: BLE001 - raised here it would reach the connection, not the caller
            self._answered(error, ())
        else:
            self._answered(result, ())

    def fail(self, error: LinkError) -> None:
        self._again(error.sent)
