"""Every change of a stream's history is found: within an append and across, by the chain alone or with a kept head."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from ledger.core import codec
from ledger.core.commitments import after_entry
from ledger.core.errors import DamageError
from ledger.core.events import Actor, ReasonDetail, Redacted, Settings
from ledger.log.tail import read_entry
from ledger.log.verify import (
    KINDS,
    Head,
    Problem,
    ProblemKind,
    WholeEntries,
    beginnings_of,
    head_of,
    is_whole,
    read_entries,
    verify_entries,
    whole_entries,
)
from ledger.stores.port import START, Entry, Position, RawEntry, StreamInfo, StreamKey
from tests.support.commands import asks, closes, connects, opens, replies
from tests.support.rows import every
from tests.support.salts import SALT
from tests.support.scenario import T0, Scenario, after, given, later

KEY = StreamKey("session", "ses_1")


def history() -> Scenario:
    """Eleven entries: 3 and 4 are of one append, as are 8 and 9, and 10 and 11; 5 and 6 are of two in one ms."""
    scenario = given(
        opens(settings=Settings(answering="lock-holder")),
        later("1s"),
        asks("per_1", "git push", always=("git *",)),
        later("1s"),
        connects("phone"),
        later("1s"),
        asks("per_2", "git pull"),
        asks("per_3", "ls"),
        later("1s"),
        replies("per_2", "session", client="phone"),
        later("1s"),
        replies("per_1", "session", client="phone"),
        later("1s"),
        closes(),
    )
    assert len(scenario.entries) == len(ENTRIES_OF)
    return scenario


ENTRIES_OF = (
    "session_opened",
    "asked",
    "client_connected",
    "lock_taken",
    "asked",
    "asked",
    "replied",
    "replied",
    "granted",
    "cancelled",
    "session_closed",
)
ENTRIES = tuple(history().entries)
HEAD = head_of(ENTRIES[-1])
SAME_APPEND = ((3, 4), (8, 9), (10, 11))


def kinds(entries: list[Entry] | tuple[Entry, ...], **known: object) -> list[tuple[int | None, ProblemKind]]:
    found = found_in(entries, **known)
    return [(one.version, one.kind) for one in found]


def found_in(entries: list[Entry] | tuple[Entry, ...], **known: object) -> list[Problem]:
    """Return the problems, after a check that the bytes alone do not pass either where there are any."""
    found = verify_entries(KEY, entries, **known)  # type: ignore[arg-type]
    assert not (found and whole_by_bytes(entries, **known))  # type: ignore[arg-type]
    return found


def whole_by_bytes(
    entries: list[Entry] | tuple[Entry, ...], info: StreamInfo | None = None, head: Head | None = None
) -> bool:
    last = entries[-1].position if entries else START
    told = StreamInfo(length=last.version, entries_added=last.version, last=last, max_deleted=START)
    return is_whole(KEY, entries, info or told, head)


def info(**changed: object) -> StreamInfo:
    last = ENTRIES[-1].position
    facts = {"length": last.version, "entries_added": last.version, "last": last, "max_deleted": START, **changed}
    return StreamInfo(**facts)  # type: ignore[arg-type]


def changed(version: int, entry: Entry) -> list[Entry]:
    return [entry if one.version == version else one for one in ENTRIES]


def at(version: int) -> Entry:
    return ENTRIES[version - 1]


def edited(version: int) -> Entry:
    """Return the same event by another author, which is equally valid."""
    envelope = json.loads(at(version).payload)
    envelope["actor"]["name"] = "mallory"
    return at(version)._replace(payload=json.dumps(envelope, separators=(",", ":"), ensure_ascii=False).encode())


def raw_of(entry: Entry) -> RawEntry:
    fields = ((b"d", entry.payload), (b"x", entry.content))
    return RawEntry(str(entry.position), tuple((name, value) for name, value in fields if value is not None))


def test_the_history_is_the_one_that_these_tests_speak_of() -> None:
    assert tuple(json.loads(entry.payload)["event"]["type"] for entry in ENTRIES) == ENTRIES_OF
    together = [(a.version, b.version) for a, b in pairwise(ENTRIES) if a.ms == b.ms]
    assert together == [(3, 4), (5, 6), (8, 9), (10, 11)]


def test_an_untouched_stream_has_no_problems() -> None:
    assert verify_entries(KEY, ENTRIES, info(), HEAD) == []
    assert verify_entries(KEY, []) == []


@pytest.mark.parametrize("length", range(1, len(ENTRIES) + 1))
def test_an_untouched_stream_is_whole_by_its_bytes(length: int) -> None:
    entries = ENTRIES[:length]
    assert whole_by_bytes(entries, head=head_of(entries[-1]))
    assert whole_by_bytes(entries, head=head_of(entries[0]))
    assert not whole_by_bytes(())


def test_entries_are_called_whole_only_where_verification_finds_nothing() -> None:
    whole = whole_entries(KEY, list(ENTRIES), info())
    assert isinstance(whole, WholeEntries)
    assert whole == ENTRIES
    spoiled = changed(2, edited(2))
    assert whole_entries(KEY, spoiled, info()) == verify_entries(KEY, spoiled, info())[0]
    shorter = info(length=3)
    assert whole_entries(KEY, ENTRIES, shorter) == verify_entries(KEY, ENTRIES, shorter)[0]


def test_entries_are_taken_as_they_lie_on_the_server_too() -> None:
    raw = [raw_of(entry) for entry in ENTRIES]
    assert verify_entries(KEY, raw, info(), HEAD) == []


class TestEdits:
    @pytest.mark.parametrize("version", range(1, len(ENTRIES)))
    def test_an_edited_entry_is_found_by_the_one_after_it(self, version: int) -> None:
        assert kinds(changed(version, edited(version))) == [(version, "edited")]

    def test_the_newest_entry_is_borne_out_only_by_a_head_that_was_kept(self) -> None:
        entries = changed(len(ENTRIES), edited(len(ENTRIES)))
        assert kinds(entries) == []
        assert kinds(entries, head=HEAD) == [(len(ENTRIES), "rewritten")]

    def test_history_rewritten_with_a_chain_of_its_own_is_found_with_a_head_alone(self) -> None:
        forged = list(history().entries[:4])
        for entry in ENTRIES[4:]:
            envelope = codec.decode(entry.payload, entry.content)
            assert isinstance(envelope, codec.Envelope)
            actor = Actor("person", "mallory")
            prev = after(forged[-1])
            fields = codec.encode(envelope.event, event_id=envelope.id, prev=prev, actor=actor, salt=SALT)
            forged.append(Entry(*entry.position, *fields))
        assert kinds(forged) == []
        assert kinds(forged, head=HEAD) == [(len(ENTRIES), "rewritten")]
        assert kinds(forged, head=head_of(ENTRIES[6])) == [(7, "rewritten")]
        assert kinds(forged, head=head_of(ENTRIES[3])) == []

    def test_every_problem_is_reported_not_only_the_first(self) -> None:
        entries = [edited(one.version) if one.version in (2, 6) else one for one in ENTRIES if one.version != 8]
        assert kinds(entries) == [(2, "edited"), (6, "edited"), (8, "gap")]

    def test_another_streams_entries_are_not_this_ones(self) -> None:
        other = StreamKey("session", "ses_2")
        assert [(one.version, one.kind) for one in verify_entries(other, ENTRIES)] == [(1, "edited")]
        assert [one.kind for one in verify_entries(StreamKey("project", "ses_1"), ENTRIES)] == ["edited"]


class TestRedating:
    @every("version", range(1, len(ENTRIES)))
    @every("by_ms", [-1, 1, 500])
    def test_an_entry_with_another_time_is_found(self, version: int, by_ms: int) -> None:
        entry = at(version)
        found = verify_entries(KEY, changed(version, entry._replace(ms=entry.ms + by_ms)))
        assert found
        assert {one.kind for one in found} <= {"edited", "redated"}

    @pytest.mark.parametrize(("first", "second"), SAME_APPEND)
    def test_within_an_append_it_is_said_to_be_re_dated(self, first: int, second: int) -> None:
        later_one = changed(second, at(second)._replace(ms=at(second).ms + 1))
        assert (second, "redated") in kinds(later_one)
        earlier_one = changed(first, at(first)._replace(ms=at(first).ms - 1))
        assert (second, "redated") in kinds(earlier_one)

    @pytest.mark.parametrize(("first", "second"), SAME_APPEND[:-1])
    def test_a_whole_append_with_another_time_is_found_by_the_entry_after_it(self, first: int, second: int) -> None:
        moved = [one._replace(ms=one.ms + 1) if one.version in (first, second) else one for one in ENTRIES]
        assert kinds(moved) == [(second, "edited")]

    def test_the_time_of_the_newest_append_is_borne_out_by_a_head_or_by_the_server(self) -> None:
        moved = [one._replace(ms=one.ms + 1) if one.version > 9 else one for one in ENTRIES]
        assert kinds(moved) == []
        assert kinds(moved, head=HEAD) == [(11, "rewritten")]
        assert kinds(moved, info=info()) == [(11, "redated")]

    def test_time_that_runs_back_is_found(self) -> None:
        moved = changed(6, at(6)._replace(ms=T0))
        assert (6, "redated") in kinds(moved)


class TestDeletions:
    @pytest.mark.parametrize("version", range(1, len(ENTRIES)))
    def test_a_missing_entry_leaves_a_gap(self, version: int) -> None:
        entries = [one for one in ENTRIES if one.version != version]
        assert kinds(entries) == [(version, "gap")]

    def test_several_missing_in_a_row_are_one_gap(self) -> None:
        entries = [one for one in ENTRIES if one.version not in (3, 4, 5)]
        assert verify_entries(KEY, entries) == [Problem(3, "gap", "versions 3 to 5 are missing")]

    def test_a_cut_end_is_found_with_a_head_that_was_kept(self) -> None:
        entries = ENTRIES[:-2]
        assert kinds(entries) == []
        assert kinds(entries, head=HEAD) == [(11, "truncated")]

    def test_a_cut_end_is_found_by_what_the_server_says(self) -> None:
        cut = info(length=9, max_deleted=ENTRIES[-1].position)
        assert kinds(ENTRIES[:-2], info=cut) == [(11, "deleted"), (None, "miscounted"), (11, "truncated")]

    def test_a_deletion_is_found_by_what_the_server_says(self) -> None:
        entries = [one for one in ENTRIES if one.version != 4]
        deleted = info(length=10, max_deleted=at(4).position)
        assert kinds(entries, info=deleted) == [(4, "gap"), (4, "deleted"), (None, "miscounted")]

    def test_a_stream_that_was_emptied_is_found(self) -> None:
        emptied = info(length=0, max_deleted=ENTRIES[-1].position)
        assert {kind for _, kind in kinds([], info=emptied)} == {"deleted", "miscounted", "truncated"}
        assert kinds([], head=HEAD) == [(11, "truncated")]

    def test_entries_trimmed_from_the_front_are_found(self) -> None:
        assert kinds(ENTRIES[3:], info=info(length=8)) == [(1, "gap"), (None, "miscounted")]

    def test_fewer_entries_than_the_server_counts_are_found(self) -> None:
        entries = [one for one in ENTRIES if one.version != 4]
        assert kinds(entries, info=info()) == [(4, "gap"), (None, "miscounted")]

    def test_a_stream_that_was_copied_without_its_counts_is_found(self) -> None:
        assert kinds(ENTRIES, info=info(entries_added=0)) == [(None, "miscounted")]

    def test_entries_that_came_since_the_server_was_asked_are_no_problem(self) -> None:
        before = at(9).position
        then = StreamInfo(length=9, entries_added=9, last=before, max_deleted=START)
        assert kinds(ENTRIES, info=then, head=head_of(at(9))) == []


class TestInsertionsAndSwaps:
    def forged(self, follows: Entry, version: int, ms: int) -> Entry:
        """Return an entry as an attacker writes it who knows how the chain is made."""
        envelope = codec.decode(at(5).payload, at(5).content)
        assert isinstance(envelope, codec.Envelope)
        prev = after(follows)
        fields = codec.encode(envelope.event, event_id="evt_x", prev=prev, actor=envelope.actor, salt=SALT)
        return Entry(ms, version, *fields)

    @pytest.mark.parametrize("place", range(1, len(ENTRIES)))
    def test_an_entry_put_in_between_is_found(self, place: int) -> None:
        before = at(place)
        entries = [*ENTRIES[:place], self.forged(before, place + 1, before.ms), *ENTRIES[place:]]
        assert (place + 1, "reordered") in kinds(entries)

    @pytest.mark.parametrize("place", range(1, len(ENTRIES)))
    def test_renumbering_what_follows_does_not_hide_it(self, place: int) -> None:
        before = at(place)
        renumbered = [one._replace(version=one.version + 1) for one in ENTRIES[place:]]
        entries = [*ENTRIES[:place], self.forged(before, place + 1, before.ms), *renumbered]
        assert (place + 1, "edited") in kinds(entries)

    def test_an_entry_put_behind_the_end_follows_on_and_only_its_author_gives_it_away(self) -> None:
        # Who may write to the server may append; the chain protects what has been, and a head shows it is still there.
        entries = [*ENTRIES, self.forged(ENTRIES[-1], 12, ENTRIES[-1].ms)]
        assert kinds(entries, head=HEAD) == []

    @pytest.mark.parametrize("first", range(1, len(ENTRIES)))
    def test_two_neighbours_whose_contents_were_swapped_are_found(self, first: int) -> None:
        one, two = at(first), at(first + 1)
        entries = list(ENTRIES)
        entries[first - 1] = one._replace(payload=two.payload)
        entries[first] = two._replace(payload=one.payload)
        assert "edited" in {kind for _, kind in kinds(entries)}

    def test_an_entry_that_was_copied_to_another_place_is_said_to_be_repeated(self) -> None:
        assert (6, "repeated") in kinds(changed(6, at(6)._replace(payload=at(2).payload)))


class TestForeignEntries:
    def raw(self) -> list[RawEntry]:
        return [raw_of(entry) for entry in ENTRIES]

    def test_an_entry_with_other_fields_is_none_of_the_ledgers(self) -> None:
        entries = self.raw()
        entries[4] = RawEntry(entries[4].id, ((b"type", b"asked"), (b"who", b"x")))
        found = verify_entries(KEY, entries)
        assert [(one.version, one.kind) for one in found] == [(5, "foreign"), (5, "gap")]

    def test_a_field_too_many_is_foreign_and_the_chain_is_followed_through_it(self) -> None:
        entries = self.raw()
        entries[4] = RawEntry(entries[4].id, (*entries[4].fields, (b"note", b"x")))
        assert [(one.version, one.kind) for one in verify_entries(KEY, entries)] == [(5, "foreign")]

    @pytest.mark.parametrize("entry_id", ["1800000000000-0", "7", "x-1", "-1", "1-2-3", "1800000000000-01"])
    def test_an_id_that_has_no_version_is_foreign(self, entry_id: str) -> None:
        entries = [RawEntry(entry_id, ((b"d", b"{}"),)), *self.raw()]
        assert [(one.version, one.kind) for one in verify_entries(KEY, entries)] == [(None, "foreign")]

    def test_a_payload_that_is_no_event_is_undecodable(self) -> None:
        assert kinds(changed(5, at(5)._replace(payload=b"{}"))) == [(5, "undecodable"), (5, "edited")]

    def test_an_event_of_a_newer_schema_is_named_and_its_chain_is_followed(self) -> None:
        payload = (
            b'{"v":4,"id":"evt_x","prev":"%b","actor":{"kind":"agent","name":"claude"},"event":{"type":"vetoed"}}'
            % after(ENTRIES[-1]).encode()
        )
        newer = Entry(ENTRIES[-1].ms, 12, payload)
        assert kinds([*ENTRIES, newer], head=head_of(newer)) == [(12, "newer")]


class TestContent:
    """The field `x`, which the chain covers by the commitment in the payload alone."""

    def test_content_that_was_changed_is_found_at_once(self) -> None:
        content = (at(5).content or b"").replace(b"git pull", b"git push")
        assert kinds(changed(5, at(5)._replace(content=content))) == [(5, "altered")]

    def test_the_content_of_another_entry_is_not_this_ones(self) -> None:
        assert kinds(changed(5, at(5)._replace(content=at(2).content))) == [(5, "altered")]

    def test_content_that_is_gone_without_a_word_is_found(self) -> None:
        assert kinds(changed(5, at(5)._replace(content=None))) == [(5, "missing")]

    def test_content_where_none_was_written_is_found(self) -> None:
        assert at(3).content is None
        assert kinds(changed(3, at(3)._replace(content=at(2).content))) == [(3, "undecodable")]

    def test_what_a_recorded_event_says_is_gone_is_counted_and_no_problem(self) -> None:
        entries = redacted(2, 5)
        reading = read_entries(KEY, entries, head=head_of(entries[-1]))
        assert (reading.problems, reading.redacted_count) == ([], 2)

    def test_what_was_redacted_and_is_there_again_is_found(self) -> None:
        entries = redacted(2, 5)
        entries[4] = at(5)
        assert kinds(entries) == [(5, "restored")]

    def test_more_than_was_recorded_as_redacted_is_found(self) -> None:
        entries = redacted(2)
        entries[4] = at(5)._replace(content=None)
        assert kinds(entries) == [(5, "missing")]


def redacted(*versions: int) -> list[Entry]:
    """Return the history without the content of these versions, and the event that says so."""
    scenario = history().given(Redacted(versions=versions, detail=ReasonDetail("a password")))
    return [one._replace(content=None) if one.version in versions else one for one in scenario.entries]


def test_what_bytes_cannot_tell_is_left_to_the_reading_of_events() -> None:
    assert not whole_by_bytes(redacted(2, 5))
    spaced = at(len(ENTRIES))._replace(payload=at(len(ENTRIES)).payload.replace(b'"v":', b'"v": '))
    assert not whole_by_bytes([*ENTRIES[:-1], spaced])
    assert kinds([*ENTRIES[:-1], spaced]) == []


@pytest.mark.parametrize(
    ("written", "crafted"),
    [
        (b'"event":{', b'"event":{"type":"session_closed"},"event":{'),
        (b'"event":{', b'"event":{"type":"session_closed"}, "event" : {'),
        (b'"request_id"', rb'"request\u005fid"'),
    ],
)
def test_bytes_in_which_a_reader_finds_another_event_than_a_search_does_are_left_to_the_reading(
    written: bytes, crafted: bytes
) -> None:
    asked = at(5)
    assert written in asked.payload
    assert beginnings_of([asked]) is not None
    assert beginnings_of([asked._replace(payload=asked.payload.replace(written, crafted))]) is None


Damage = Callable[[list[Entry], int, int], list[Entry]]


def _flip(entries: list[Entry], index: int, amount: int) -> list[Entry]:
    payload = bytearray(entries[index].payload)
    payload[amount % len(payload)] ^= 1 + amount % 255
    entries[index] = entries[index]._replace(payload=bytes(payload))
    return entries


def _flip_content(entries: list[Entry], index: int, amount: int) -> list[Entry]:
    content = bytearray(entries[index].content or b"{}")
    content[amount % len(content)] ^= 1 + amount % 255
    entries[index] = entries[index]._replace(content=bytes(content))
    return entries


def _delete(entries: list[Entry], index: int, amount: int) -> list[Entry]:
    return entries[:index] + entries[index + 1 + amount % 3 :]


def _redate(entries: list[Entry], index: int, amount: int) -> list[Entry]:
    entries[index] = entries[index]._replace(ms=entries[index].ms + (amount + 1) * (-1) ** amount)
    return entries


def _insert(entries: list[Entry], index: int, amount: int) -> list[Entry]:
    entries.insert(index, entries[amount % len(entries)])
    return entries


def _insert_and_renumber(entries: list[Entry], index: int, amount: int) -> list[Entry]:
    copied = entries[amount % len(entries)].payload
    tail = [one._replace(version=one.version + 1) for one in entries[index:]]
    return [*entries[:index], entries[index]._replace(payload=copied), *tail]


def _swap(entries: list[Entry], index: int, amount: int) -> list[Entry]:
    other = (index + 1 + amount % (len(entries) - 1)) % len(entries)
    one, two = entries[index].payload, entries[other].payload
    entries[index], entries[other] = entries[index]._replace(payload=two), entries[other]._replace(payload=one)
    return entries


damages = st.sampled_from([_flip, _flip_content, _delete, _redate, _insert, _insert_and_renumber, _swap])


@settings(max_examples=400)
@for_all(damages, st.integers(0, len(ENTRIES) - 1), st.integers(0, 5000))
def test_any_damage_at_any_place_is_found(damage: Damage, index: int, amount: int) -> None:
    damaged = damage(list(ENTRIES), index, amount)
    assert damaged != list(ENTRIES)
    assert found_in(damaged, head=HEAD) != []


@settings(max_examples=200)
@for_all(damages, st.integers(0, len(ENTRIES) - 2), st.integers(0, 5000))
def test_who_folds_a_damaged_stream_meets_the_damage_no_later_than_the_entry_after_it(
    damage: Damage, index: int, amount: int
) -> None:
    damaged = damage(list(ENTRIES), index, amount)
    position, payload, refused = START, b"", False
    for entry in damaged:
        try:
            read_entry(KEY, entry, position, payload, None)
        except DamageError:
            refused = True
            break
        position, payload = entry.position, entry.payload
    assert refused or damaged == list(ENTRIES[: len(damaged)])


def test_the_kinds_of_problems_are_a_closed_list() -> None:
    assert get_args(ProblemKind.__value__ if hasattr(ProblemKind, "__value__") else ProblemKind) == KINDS
    assert list(KINDS) == sorted(KINDS)


def test_a_head_is_the_place_and_the_hash_that_the_next_entry_bears() -> None:
    entry = ENTRIES[0]
    assert head_of(entry) == Head(Position(T0, 1), after_entry(T0, 1, entry.payload))
    assert json.loads(ENTRIES[1].payload)["prev"] == head_of(entry).hash
