"""The views as `redis-cli` shows them: one key for each view and partition, full ids, and values that are text."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.stores.port import StreamKey
from projections.views import FIXED
from tests.projections.looking import data_of, project_all

PROJECT = "/srv/customers/the-shop-of-the-north/services/payments"


@pytest.fixture
async def fields(ledger: Ledger) -> dict[str, dict[str, str]]:
    """The fields of each view of a session, of all partitions together, as text."""
    session = await ledger.session("ses_1", project=PROJECT, agent="build", parent="ses_0")
    await session.submit("bash", ["npm test"], request_id="call_1")
    await session.reply("call_1", "once", actor="ann@example.com")
    await session.submit("bash", ["npm publish"], request_id="call_2")
    await session.grant("bash", "make *", grant_id="grn_1")
    await session.submit("bash", ["make all"], request_id="call_3")
    await ledger.grant_in_project(PROJECT, "bash", "ls *", grant_id="grn_2")
    await session.submit("bash", ["ls -l"], request_id="call_4")
    await project_all(ledger)
    found: dict[str, dict[str, str]] = {}
    for (_, view), held in (await data_of(ledger.store)).items():
        found.setdefault(view, {}).update((field, value.decode()) for field, value in held.items())
    return found


def test_every_view_has_one_key_in_a_partition_and_all_of_it_is_text(fields: dict[str, dict[str, str]]) -> None:
    assert set(fields) <= set(FIXED)
    texts = [text for held in fields.values() for one in held.items() for text in one]
    assert len(texts) > 40
    assert [text for text in texts if not text.replace("\n", " ").isprintable()] == []


def test_ids_are_whole(ledger: Ledger, fields: dict[str, dict[str, str]]) -> None:
    assert sorted(fields["requests"]) == [f"call_{number}\nses_1" for number in (1, 2, 3, 4)]
    assert sorted(fields["grants"]) == ["grn_1\nsession:ses_1", f"grn_2\nproject:{PROJECT}"]
    assert set(fields["uses"]) == {"grn_2\nses_1"}
    assert set(fields["people"]) == {"ann@example.com\nses_1"}
    assert set(fields["used"]) == {"session:ses_1\ngrn_1", f"project:{PROJECT}\ngrn_2"}
    assert fields["outcomes"] == {"ses_1\nallowed": "3"}
    assert {StreamKey.parse(name).kind for name in fields["checkpoints"]} == {"session", "project", "policy"}
    lists = {field.split("\n")[0] for field in fields["latest"]}
    assert (lists, len(fields["latest"])) == ({"all", "project", "parent"}, 3)
