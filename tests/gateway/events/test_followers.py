"""A gateway keeps the state of idle streams by the room that it takes, whatever their number."""

from __future__ import annotations

from typing import Final

from ledger.log.fold_room import fold_bytes
from ledger.log.tail import fold_entries
from ledger.stores.port import StreamKey
from tests.support.archives import lived
from tests.support.commands import asks, opens
from tests.support.scenario import Scenario, later
from workers.gateway.events.follower import Follower, Followers

NOTHING: Final[frozenset[StreamKey]] = frozenset()


def followed(name: str, requests: int = 2) -> Follower:
    """Return the follower of a closed session."""
    key, entries = lived(name, requests=requests)
    follower = Follower(key)
    follower.folded = fold_entries(key, follower.folded, entries)
    return follower


def waiting(name: str) -> Follower:
    """Return the follower of a session with a pending request."""
    scenario: Scenario = Scenario(name).given(opens({"bash": "ask"}), later("1s"), asks("per_1", "make"))
    follower = Follower(scenario.key)
    follower.folded = fold_entries(scenario.key, follower.folded, scenario.entries)
    return follower


ROOM: Final = 3 * fold_bytes(followed("ses_0").state)
"""The room of three small sessions."""


def kept(followers: Followers) -> list[str]:
    return [key.id for key in followers]


def test_the_least_recently_used_idle_streams_are_dropped_when_there_is_no_room() -> None:
    followers = Followers(ROOM)
    for number in range(4):
        followers.keep(followed(f"ses_{number}"), NOTHING)
    assert kept(followers) == ["ses_1", "ses_2", "ses_3"]
    followers.keep(followers[StreamKey("session", "ses_1")], NOTHING)
    followers.keep(followed("ses_4"), NOTHING)
    assert kept(followers) == ["ses_3", "ses_1", "ses_4"]


def test_a_large_stream_takes_the_room_of_many_small_ones_and_stays_while_it_is_the_last() -> None:
    followers = Followers(ROOM)
    for number in range(3):
        followers.keep(followed(f"ses_{number}"), NOTHING)
    followers.keep(followed("ses_large", requests=40), NOTHING)
    assert kept(followers) == ["ses_large"]
    followers.keep(followed("ses_next"), NOTHING)
    assert kept(followers) == ["ses_next"]


def test_what_waits_is_read_or_is_wanted_stays() -> None:
    followers = Followers(ROOM)
    read, wanted, waits = followed("ses_read"), followed("ses_wanted"), waiting("ses_waiting")
    read.watch()
    for one in (read, wanted, waits, *(followed(f"ses_{number}") for number in range(5))):
        followers.keep(one, {wanted.key})
    assert kept(followers) == ["ses_read", "ses_wanted", "ses_waiting", "ses_4"]
    assert list(followers.pending) == [waits.key]
    read.unwatch()
    followers.keep(followed("ses_5"), NOTHING)
    assert kept(followers) == ["ses_wanted", "ses_waiting", "ses_4", "ses_5"]


def test_a_stream_that_is_dropped_gives_its_room_back() -> None:
    followers = Followers(ROOM)
    for _ in range(3):
        for number in range(3):
            followers.keep(followed(f"ses_{number}"), NOTHING)
        for number in range(3):
            dropped = followers.drop(StreamKey("session", f"ses_{number}"))
            assert dropped is not None
    assert followers.drop(StreamKey("session", "ses_0")) is None
    for number in range(3):
        followers.keep(followed(f"ses_{number}"), NOTHING)
    assert len(followers) == 3
