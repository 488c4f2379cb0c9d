"""Contents of each view, on every store."""

from __future__ import annotations

import msgspec

from ledger import Ledger
from ledger.client.grant_list import GrantList
from ledger.log.history import HistoryCache
from ledger.policy import PolicySource, digest
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from projections import queries
from projections.sentences import timeline_page
from projections.views import APPROVED
from tests.projections import whole_views
from tests.projections.looking import RULES, as_rows, project_all
from tests.support.store_calls import view

SES_1 = StreamKey("session", "ses_1")
SHOP = StreamKey("project", "shop")


async def test_nothing_is_shown_of_what_was_not_projected(ledger: Ledger) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["ls"], request_id="r1")
    assert await whole_views.pending(ledger.store) == whole_views.ViewResult([], {})
    assert await whole_views.pending_of(ledger.store, "ses_1") == whole_views.ViewResult([], {"session:ses_1": 0})
    assert await queries.session_summaries(ledger.store, ["ses_1"]) == []
    assert await queries.latest_sessions(ledger.store, 10) == []


async def test_pending_shows_what_the_ledger_shows_with_the_version_it_is_as_of(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.submit("bash", ["git push"], always=["git *"], metadata={"why": "ü"}, request_id="r2")
    await session.submit("edit", ["a.py"], request_id="r1")
    await project_all(ledger)
    shown = await whole_views.pending_of(ledger.store, "ses_1")
    assert shown.rows == as_rows(await session.pending())
    assert shown.as_of == {"session:ses_1": 3}


async def test_what_was_answered_is_pending_no_more(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", cascade_reject="none")
    for request_id in ("r1", "r2", "r3"):
        await session.submit("bash", [request_id], request_id=request_id)
    await project_all(ledger)
    await session.reply("r2", "reject", actor="ann")
    await project_all(ledger)
    shown = await whole_views.pending_of(ledger.store, "ses_1")
    assert [row["request_id"] for row in shown.rows] == ["r1", "r3"]
    assert shown.as_of == {"session:ses_1": 5}


async def test_a_client_that_connects_moves_the_deadline_of_all_that_wait(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["a"], request_id="r1")
    await session.submit("bash", ["b"], request_id="r2")
    await project_all(ledger)
    clock.advance("1d")
    await session.connect("phone", actor="ann")
    await project_all(ledger)
    shown = await whole_views.pending_of(ledger.store, "ses_1")
    assert [row["deadline"] for row in shown.rows] == [one.as_json()["deadline"] for one in await session.pending()]


async def test_across_sessions_the_nearest_deadline_comes_first(ledger: Ledger, clock: TestClock) -> None:
    for number in range(12):
        session = await ledger.session(f"ses_{number}")
        await session.submit("bash", ["x"], request_id=f"r{number}")
        clock.advance("1s")
    await project_all(ledger)
    shown = await whole_views.pending(ledger.store)
    assert shown.rows == as_rows(await ledger.pending())
    assert shown.as_of == {f"session:ses_{number}": 2 for number in range(12)}


async def test_approved_shows_grants_in_force_of_session_and_project(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", project="shop")
    kept = await session.grant("bash", "ls *", actor="ann")
    gone = await session.grant("bash", "rm *", actor="ann")
    brief = await session.grant("edit", "*", expires_in_ms=1000, actor="ann")
    shared = await ledger.grant_in_project("shop", "bash", "git *", actor="bob")
    await session.revoke(gone.grant.grant_id)
    await project_all(ledger)

    own, project = StreamKey("session", "ses_1"), StreamKey("project", "shop")
    assert await whole_views.approved_of(ledger.store, own, clock.now_ms()) == whole_views.ViewResult(
        as_rows([kept, brief]), {own.name: 5}
    )
    assert await whole_views.approved_of(ledger.store, project, clock.now_ms()) == whole_views.ViewResult(
        as_rows([shared]), {project.name: 1}
    )
    clock.advance("1s")
    assert (await whole_views.approved_of(ledger.store, own, clock.now_ms())).rows == as_rows([kept])
    assert as_rows(await session.approved()) == as_rows([kept, shared])


async def test_a_grant_is_held_as_it_is_listed(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await session.grant("bash", "ls *", actor="ann")
    bounded = await session.grant("bash", "rm *", actor="ann", reason="once", uses=1)
    await project_all(ledger)
    held = await view(ledger.store, APPROVED, session.stream.key.partition(ledger.store.partition_count))
    rows = [row async for page in GrantList(ledger.store, ledger.streams).pages(None, 10) for row in page.items]
    for shown in ([msgspec.json.decode(value) for value in held.values()], rows):
        wanted = [list(one.as_json().items()) for one in (made, bounded)]
        assert sorted((list(one.items()) for one in shown), key=str) == sorted(wanted, key=str)


async def test_recent_sessions_come_newest_first_with_how_their_requests_ended(
    ledger: Ledger, clock: TestClock
) -> None:
    old = await ledger.session("ses_old", project="shop", agent="build", rules=RULES)
    await old.submit("read", ["a"])
    await old.submit("bash", ["rm -rf /"])
    await old.submit("bash", ["x"], request_id="r1")
    await old.reply("r1", "reject", message="no", actor="ann")
    await old.close()
    clock.advance("1s")
    await (await ledger.session("ses_new")).submit("bash", ["y"])
    await project_all(ledger)
    shown = await whole_views.recent_sessions(ledger.store)
    assert [row["session"] for row in shown.rows] == ["ses_new", "ses_old"]
    assert shown.rows[1] == {
        "session": "ses_old",
        "project": "shop",
        "agent": "build",
        "parent": None,
        "opened_at": "2027-01-15T08:00:00.000Z",
        "closed_at": "2027-01-15T08:00:00.000Z",
        "at": "2027-01-15T08:00:00.000Z",
        "version": 6,
        "pending": 0,
        "dialect": "opencode",
        "answered_at": "2027-01-15T08:00:00.000Z",
        "outcomes": {"allowed": 1, "denied": 1, "corrected": 1},
    }
    assert (shown.rows[0]["pending"], shown.rows[0]["outcomes"]) == (1, {})
    assert shown.as_of == {"session:ses_new": 2, "session:ses_old": 6}
    assert [row["session"] for row in (await whole_views.recent_sessions(ledger.store, 1)).rows] == ["ses_new"]


PUSHED = (
    "claude asked for bash `git push`: needs an answer (no rule matches, and the default is ask), "
    "waits for 7d (unattended)"
)


async def test_the_timeline_tells_each_event_in_a_sentence(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop", agent="build", actor="claude")
    await session.submit("bash", ["git push"], always=["git *"], request_id="r1", actor="claude")
    await session.reply("r1", "always", actor="ann")
    await session.close(reason="done", actor="claude")
    shown = await timeline_page(HistoryCache(ledger.store), "ses_1", 0, 10)
    assert [(row["version"], row["type"], row["request_id"], row["text"]) for row in shown] == [
        (1, "session_opened", None, "claude opened the session in project shop for build"),
        (2, "asked", "r1", PUSHED),
        (3, "replied", "r1", "ann allowed bash `git push` (always), remembered for the project: `git *`"),
        (4, "session_closed", None, "claude closed the session: done"),
    ]
    assert shown[2]["actor"] == {"kind": "person", "name": "ann", "via": None}


async def test_the_timeline_is_read_page_by_page(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    for _ in range(9):
        await session.submit("read", ["a"])
    history = HistoryCache(ledger.store)
    pages = [await timeline_page(history, "ses_1", after, 4) for after in (0, 4, 8, 12)]
    assert [[row["version"] for row in page] for page in pages] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], []]


async def test_each_ask_counts_once_by_whose_decision_it_was(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", rules=RULES, cascade_reject="none")
    await session.submit("read", ["a"], request_id="same")
    await session.submit("read", ["a"], request_id="same")
    await session.submit("bash", ["rm x"])
    for request_id in ("yes", "no", "late", "never", "left"):
        await session.submit("bash", [request_id], request_id=request_id)
    await session.reply("yes", "once", actor="ann")
    await session.reply("yes", "once", actor="ann")
    await session.reply("no", "reject", actor="ann")
    await session.cancel("left")
    clock.advance("8d")
    other = await ledger.session("ses_2")
    await other.submit("bash", ["x"])
    await other.close()
    await session.submit("read", ["b"])
    await project_all(ledger)
    assert (await queries.totals(ledger.store)).decisions == {
        "auto_allow": 2,
        "auto_deny": 1,
        "user_allow": 1,
        "user_deny": 1,
        "timeout": 2,
        "cancelled": 2,
    }


async def test_what_a_view_is_as_of_is_told_for_every_stream(ledger: Ledger) -> None:
    await ledger.session("ses_1")
    await ledger.grant_in_project("shop", "bash", "*", actor="ann")
    assert await whole_views.versions(ledger.store) == {}
    await project_all(ledger)
    rules = f"policy:{digest(PolicySource())}"
    assert await whole_views.versions(ledger.store) == {"session:ses_1": 1, "project:shop": 1, rules: 1}
