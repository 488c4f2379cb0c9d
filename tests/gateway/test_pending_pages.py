"""Pages of what waits for a person: what they hold, and what they leave out."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from tests.gateway import callers
from tests.gateway.callers import Caller, Served
from tests.support.projecting import project_as_a_worker
from workers.gateway import inboxes


@pytest.fixture
async def root(gateway: Served) -> Caller:
    return await gateway.caller("admin", "root")


async def pages(caller: Caller, query: str) -> list[list[str]]:
    return [[one["request_id"] for one in page] for page in await callers.pages(caller, "/v1/pending", query)]


async def fill(root: Caller, clock: Any) -> None:
    for number in range(5):
        await root.put(f"/v1/sessions/ses_{number}", {"project": "shop" if number % 2 else "bank"})
        await root.ask(f"ses_{number}", request_id=f"r{number}")
        clock.advance("1s")


async def test_pages_follow_each_other_by_cursors(root: Caller, ledger: Ledger, clock: Any) -> None:
    await fill(root, clock)
    for _ in range(2):
        assert await pages(root, "limit=2") == [["r0", "r1"], ["r2", "r3"], ["r4"]]
        assert await pages(root, "limit=5") == [["r0", "r1", "r2", "r3", "r4"]]
        assert await pages(root, "project=shop&limit=1") == [["r1"], ["r3"]]
        assert await pages(root, "session=ses_3&limit=1") == [["r3"]]
        await project_as_a_worker(ledger)


async def test_a_page_with_a_projector_looks_for_no_stream(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(root, clock)
    await project_as_a_worker(ledger)
    monkeypatch.setattr(ledger.store, "streams_page", None)
    monkeypatch.setattr(ledger.waiting, "survey", None)
    assert await pages(root, "limit=3") == [["r0", "r1", "r2"], ["r3", "r4"]]


async def test_a_search_that_leaves_much_out_goes_on_by_its_cursor(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(root, clock)
    await project_as_a_worker(ledger)
    monkeypatch.setattr(inboxes, "AT_ONCE_COUNT", 1)
    monkeypatch.setattr(inboxes, "EXAMINED_COUNT", 1)
    found = await pages(root, "tree=ses_4&limit=1")
    assert found[-1] == ["r4"]
    assert [one for page in found for one in page] == ["r4"]
    assert len(found) > 1
    assert (await root.get("/v1/pending?limit=3")).json()["count"] == 3


async def test_a_request_past_its_deadline_is_on_no_page(root: Caller, clock: Any) -> None:
    await fill(root, clock)
    clock.advance("30d")
    assert await pages(root, "limit=5") == [[]]
    assert await pages(root, "session=ses_3") == [[]]


async def test_a_page_has_what_a_token_reaches_and_no_more(gateway: Served, root: Caller, clock: Any) -> None:
    await fill(root, clock)
    shop = await gateway.caller("approver", "ann", projects=["shop"])
    assert await pages(shop, "limit=1") == [["r1"], ["r3"]]
    assert await pages(shop, "project=bank") == [[]]
    two = await gateway.caller("approver", "bob", sessions=["ses_0", "ses_3"])
    assert await pages(two, "limit=1") == [["r0"], ["r3"]]
    assert await pages(two, "session=ses_1") == [[]]
    agent = await gateway.caller("agent", "robot", projects=["shop"])
    await agent.put("/v1/sessions/ses_own", {"project": "shop"})
    await agent.ask("ses_own", request_id="own")
    assert await pages(agent, "") == [["own"]]


async def test_the_most_dangerous_requests_come_first_then_those_with_the_nearest_deadlines(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = ["make late", "npm publish", "make later", "sudo make", "rm -rf build"]
    for number, command in enumerate(commands):
        await root.put(f"/v1/sessions/ses_{number}", {"project": "shop" if number % 2 else "bank"})
        await root.ask(f"ses_{number}", request_id=f"r{number}", patterns=[command])
        clock.advance("1s")
    for _ in range(2):
        answer = (await root.get("/v1/pending?sort=danger")).json()
        assert [one["request_id"] for one in answer["pending"]] == ["r3", "r4", "r1", "r0", "r2"]
        few = (await root.get("/v1/pending?sort=danger&limit=2")).json()
        assert [one["request_id"] for one in few["pending"]] == ["r3", "r4"]
        assert {name: few[name] for name in ("count", "among", "is_cut", "cursor", "problems")} == {
            "count": 2,
            "among": 5,
            "is_cut": False,
            "cursor": None,
            "problems": [],
        }
        await project_as_a_worker(ledger)
    monkeypatch.setattr(inboxes, "RANKED_COUNT", 3)
    cut = (await root.get("/v1/pending?sort=danger&limit=2")).json()
    assert ([one["request_id"] for one in cut["pending"]], cut["among"], cut["is_cut"]) == (["r1", "r0"], 3, True)
    monkeypatch.setattr(inboxes, "RANKED_SECONDS", -1)
    late = (await root.get("/v1/pending?sort=danger&limit=2")).json()
    assert ([one["request_id"] for one in late["pending"]], late["among"], late["is_cut"]) == (["r1", "r0"], 2, True)
    refused = await root.get(
        f"/v1/pending?sort=danger&cursor={(await root.get('/v1/pending?limit=1')).json()['cursor']}"
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")


async def test_what_cannot_be_undone_comes_before_what_changes_nothing(root: Caller, clock: Any) -> None:
    await root.put("/v1/sessions/ses_1", {"rules": {"permission": {"*": "ask"}}})
    given = {"tool_name": "read", "input": {"file_path": "/srv/shop/a.py"}}
    await root.ask("ses_1", "/srv/shop/a.py", request_id="r0", permission="read", **given)
    clock.advance("1s")
    await root.ask("ses_1", "make late", request_id="r1")
    answer = (await root.get("/v1/pending?sort=danger&form=row")).json()
    assert [(one["request_id"], one["effect"]) for one in answer["pending"]] == [
        ("r1", "irreversible"),
        ("r0", "reads"),
    ]


async def test_the_most_dangerous_requests_are_those_within_reach(gateway: Served, root: Caller, clock: Any) -> None:
    await fill(root, clock)
    shop = await gateway.caller("approver", "ann", projects=["shop"])
    answer = (await shop.get("/v1/pending?sort=danger")).json()
    assert ([one["request_id"] for one in answer["pending"]], answer["among"]) == (["r1", "r3"], 2)


async def test_a_cursor_that_was_not_handed_out_is_bad_input(root: Caller) -> None:
    answer = await root.get("/v1/pending?cursor=abc")
    assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")


ROW_MEMBERS = {
    *("agent", "alike", "always_scope", "answering", "asked_at", "asker_gone_at", "by", "by_passkey", "cascade_reject"),
    *("cwd", "dangers", "deadline", "dialect", "digest", "effect", "extending", "kind", "latest_deadline", "lineage"),
    *(
        "names_tool",
        "one_line",
        "owner",
        "parent",
        "permission",
        "project",
        "request_id",
        "session",
        "tier",
        "tool",
        "tool_name",
    ),
    *("version", "would_run"),
}


async def test_a_row_has_what_one_line_shows_and_what_an_answer_is_bound_to(root: Caller) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop", "agent": "build"})
    command = "rm -rf build && " + "x" * 1000
    await root.ask(
        "ses_1", request_id="r1", permission="bash", patterns=[command], tool_name="bash", input={"command": command}
    )
    [card] = (await root.get("/v1/pending")).json()["pending"]
    [row] = (await root.get("/v1/pending?form=row")).json()["pending"]
    assert set(row) <= ROW_MEMBERS
    assert row.items() <= card.items()
    assert row["would_run"].startswith("rm -rf build && xxx")
    assert len(row["would_run"]) < 240
    assert row["dangers"] == ["deletes"]
    assert (row["kind"], row["by_passkey"]) == ("call", False)
    one = (await root.get("/v1/pending?session=ses_1&request=r1&form=row")).json()
    assert one["pending"] == [row]
    assert (await root.get("/v1/pending?form=card")).json()["pending"] == [card]


async def test_a_row_names_questions_plans_and_passkeys(root: Caller) -> None:
    rules = {"permission": {"*": "ask"}, "demands": [{"permission": "bash", "answer_by": "passkey"}]}
    await root.put("/v1/sessions/ses_1", {"rules": rules})
    asked = {"questions": [{"question": "Which?", "options": [{"label": "a"}]}]}
    for name, tool, given in (
        ("r1", "AskUserQuestion", asked),
        ("r2", "ExitPlanMode", {"plan": "# Go"}),
        ("r3", "bash", {"command": "ls"}),
    ):
        await root.ask("ses_1", request_id=name, permission=tool, patterns=["*"], tool_name=tool, input=given)
    rows = {one["request_id"]: one for one in (await root.get("/v1/pending?form=row")).json()["pending"]}
    assert {name: (row["kind"], row["by_passkey"]) for name, row in rows.items()} == {
        "r1": ("question", False),
        "r2": ("plan", False),
        "r3": ("call", True),
    }


async def rows_of(root: Caller, **patterns: str) -> dict[str, Any]:
    for name, pattern in patterns.items():
        await root.ask("ses_1", pattern, request_id=name)
    rows = (await root.get("/v1/pending?form=row")).json()["pending"]
    return {one["request_id"]: one for one in rows}


async def test_rows_say_which_requests_are_alike_and_of_which_their_words_say_all(root: Caller) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop"})
    rows = await rows_of(root, r1="ls a", r2="ls b", r3="ls a", r4="cat " + "x" * 300, r5="ls\nls c")
    assert rows["r1"]["alike"] == rows["r2"]["alike"] == rows["r3"]["alike"] is not None
    assert rows["r4"]["alike"] != rows["r1"]["alike"]
    # One line for all of them says what all of them do only where all of it is equal.
    assert rows["r1"]["one_line"] == rows["r3"]["one_line"] is not None
    assert rows["r2"]["one_line"] not in (None, rows["r1"]["one_line"])
    assert (rows["r4"]["one_line"], rows["r5"]["one_line"]) == (None, None)


@pytest.mark.parametrize(
    ("more", "is_whole"),
    [
        ({"input": {"command": "ls a"}}, True),
        ({"input": {"command": "ls a", "description": "a remark, not verified"}}, True),
        ({"input": {"command": "ls a", "env": "b"}}, True),
        ({"input": {"command": "ls a"}, "metadata": {"note": "a"}}, False),
        ({"input": {"command": "ls a"}, "metadata": {"note": "another"}}, False),
        ({"input": {"command": "ls \u0430"}}, False),
    ],
    ids=["command", "remark", "named member", "part of a word", "metadata", "misleading character"],
)
async def test_words_of_a_row_that_leave_something_out_do_not_say_all(
    root: Caller, more: dict[str, Any], is_whole: bool
) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop"})
    await root.ask("ses_1", more["input"]["command"], request_id="r1", tool_name="bash", **more)
    [row] = (await root.get("/v1/pending?form=row")).json()["pending"]
    assert (row["one_line"] is not None) is is_whole


async def test_a_form_of_another_name_is_refused(root: Caller) -> None:
    refused = await root.get("/v1/pending?form=table")
    assert refused.status_code == 422
    assert "form" in refused.json()["detail"]
