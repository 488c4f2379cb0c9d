"""The views on the ledger's own server stay packed with the ids and paths that agents have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis.asyncio import Redis

from ledger import Ledger
from ledger.stores.embedded import embedded_server, stop
from ledger.stores.keys import Keys
from projections.approved import APPROVED
from projections.pending import PENDING
from tests.projections.looking import project_all

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = "/srv/work/customers/the-shop-of-the-north/services/payments-and-refunds"
PARENT, SESSION_ID = "ses_" + "p" * 36, "ses_" + "s" * 36

WHOLE_ROWS = {PENDING, APPROVED}
"""The views with long rows, which only pending requests and grants in force have."""


async def test_long_ids_paths_and_names_unpack_no_view_of_all_sessions(tmp_path: Path) -> None:
    async with embedded_server(tmp_path / "data") as server:
        async with Ledger.connect(server.url, actor="agent", entry_points=False) as ledger:
            await ledger.session(PARENT, project=PROJECT, agent="general-purpose")
            session = await ledger.session(SESSION_ID, project=PROJECT, agent="code-reviewer", parent=PARENT)
            await session.submit("bash", ["npm test"], request_id="r" * 40)
            await session.reply("r" * 40, "once", actor="anna.maria.example@company.example.com")
            await session.grant("bash", "make *", actor="ann")
            await project_all(ledger)
            names = await ledger.store.views.survey()
            held = Keys(ledger.store.partition_count)
            keys = [held.view(view, one) for one, views in names.items() for view in {*views} - WHOLE_ROWS]
        async with Redis.from_url(server.url) as client:
            encodings = {key: await client.object("ENCODING", key) for key in keys}
    stop(tmp_path / "data")
    assert len(keys) > 10
    assert {key: one for key, one in encodings.items() if one != b"listpack"} == {}
