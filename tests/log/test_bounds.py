"""Durations out of bounds are damage where they are read, and are never written."""

from __future__ import annotations

import json

import pytest

from ledger.core import codec
from ledger.core.commitments import genesis
from ledger.core.errors import DamageError, InputError
from ledger.core.events import Actor, Granted, GrantedDetail
from ledger.core.limits import DURATION_MS_MAX
from ledger.log.verify import verify_entries
from ledger.stores.port import Entry, StreamKey
from tests.support.salts import SALT, unsalted

ANN = Actor("person", "ann")


def granted(expires_in_ms: int) -> Granted:
    return Granted(
        grant_id="grn_1", permission="bash", scope="project", expires_in_ms=expires_in_ms, detail=GrantedDetail("*")
    )


def fields(expires_in_ms: int) -> codec.EntryFields:
    prev = genesis("project", "shop")
    payload, content = codec.encode(granted(60_000), event_id="evt_1", prev=prev, actor=ANN, salt=SALT)
    whole = json.loads(payload)
    whole["event"]["expires_in_ms"] = expires_in_ms
    return json.dumps(whole, separators=(",", ":")).encode(), content


@pytest.mark.parametrize("ms", [-1, DURATION_MS_MAX + 1, 2**62, 2**80])
def test_a_duration_out_of_bounds_is_damage(ms: int) -> None:
    with pytest.raises(DamageError, match=r"expires_in_ms|out of range"):
        codec.decode(*fields(ms))
    (problem,) = verify_entries(StreamKey("project", "shop"), [Entry(1_800_000_000_000, 1, *fields(ms))])
    assert (problem.version, problem.kind) == (1, "undecodable")


@pytest.mark.parametrize("ms", [0, 1, DURATION_MS_MAX])
def test_a_duration_within_bounds_is_read(ms: int) -> None:
    assert unsalted(codec.decode(*fields(ms)).event) == granted(ms)


@pytest.mark.parametrize("ms", [-1, DURATION_MS_MAX + 1])
def test_a_duration_out_of_bounds_is_never_written(ms: int) -> None:
    with pytest.raises(InputError, match="expires_in_ms"):
        codec.encode(granted(ms), event_id="evt_1", prev="0" * 64, actor=ANN, salt=SALT)
