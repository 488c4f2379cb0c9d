"""Looking around and back over HTTP: pending requests, past sessions, states at a version or time, and grants."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from ledger.core.times import parse_time
from ledger.log.archive.archive import all_streams
from tests.gateway.callers import Caller, Served, in_process
from tests.support.backends import Operator
from tests.support.servers import RealServer
from workers.projector import CatchingUp


@pytest.fixture
async def root(gateway: Served) -> Caller:
    return await gateway.caller("admin", "root")


async def project_everything(ledger: Ledger) -> None:
    """Bring the views up, as a projector does."""
    await CatchingUp(ledger).catch_up_all([key async for key in all_streams(ledger.store)])


async def test_without_a_projector_a_page_shows_what_the_log_has(root: Caller) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop"})
    await root.ask("ses_1", request_id="r1")
    first = (await root.get("/v1/sessions/ses_1/timeline")).json()
    assert ([line["type"] for line in first["lines"]], first["version"]) == (["session_opened", "asked"], 2)
    await root.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    then = (await root.get("/v1/sessions/ses_1/timeline?after=2")).json()
    assert ([line["type"] for line in then["lines"]], then["version"]) == (["replied"], 3)
    [row] = (await root.get("/v1/sessions")).json()["sessions"]
    assert (row["session"], row["version"], row["outcomes"]) == ("ses_1", 3, {"allowed": 1})


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["r1", "r2", "r3"]),
        ("?session=child", ["r2"]),
        ("?tree=root", ["r1", "r2"]),
        ("?tree=child", ["r2"]),
        ("?project=bank", ["r3"]),
        ("?agent=explore", ["r2"]),
        ("?limit=1", ["r1"]),
        ("?session=nope", []),
    ],
)
async def test_what_is_pending_is_found_by_session_tree_project_and_agent(
    root: Caller, clock: Any, query: str, found: list[str]
) -> None:
    await root.put("/v1/sessions/root", {"project": "shop"})
    await root.put("/v1/sessions/child", {"project": "shop", "parent": "root", "agent": "explore"})
    await root.put("/v1/sessions/other", {"project": "bank"})
    for session, request_id in (("root", "r1"), ("child", "r2"), ("other", "r3")):
        await root.ask(session, request_id=request_id)
        clock.advance("1s")
    answer = (await root.get(f"/v1/pending{query}")).json()
    assert [one["request_id"] for one in answer["pending"]] == found
    assert [one["lineage"] for one in answer["pending"] if one["session"] == "child"] in ([], [["root"]])


async def test_a_gateway_that_was_just_started_knows_the_whole_lineage(
    root: Caller, server: RealServer, clock: Any
) -> None:
    for session, parent in (("root", None), ("child", "root"), ("grandchild", "child")):
        await root.put(f"/v1/sessions/{session}", {} if parent is None else {"parent": parent})
    await root.ask("grandchild")
    async with Ledger.connect(server.url, clock=clock) as ledger, in_process(ledger) as gateway:
        caller = await gateway.caller("auditor")
        [row] = (await caller.get("/v1/pending?tree=root")).json()["pending"]
        assert row["lineage"] == ["root", "child"]


async def test_the_sessions_above_are_named_as_far_as_the_caller_may_see_them(gateway: Served, root: Caller) -> None:
    for session, project, parent in (("top", "shop", None), ("middle", "bank", "top"), ("low", "shop", "middle")):
        await root.put(
            f"/v1/sessions/{session}", {"project": project, **({} if parent is None else {"parent": parent})}
        )
    await root.ask("low")
    ann = await gateway.caller("approver", projects=["shop"])
    [row] = (await ann.get("/v1/pending")).json()["pending"]
    assert row["lineage"] == ["top"]
    # Nor does a filter tell what stands above.
    assert (await ann.get("/v1/pending?tree=middle")).json()["pending"] == []
    [row] = (await root.get("/v1/pending?tree=middle")).json()["pending"]
    assert row["lineage"] == ["top", "middle"]


async def test_the_nearest_deadline_comes_first(root: Caller) -> None:
    for session, time in (("slow", "2d"), ("never", "none"), ("fast", "1h")):
        await root.put(f"/v1/sessions/{session}", {"timeouts": {"unattended": time, "cap": "none"}})
        await root.ask(session)
    rows = (await root.get("/v1/pending")).json()["pending"]
    assert [one["session"] for one in rows] == ["fast", "slow", "never"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["ses_2", "ses_1"]),
        ("?project=shop", ["ses_1"]),
        ("?agent=build", ["ses_2"]),
        ("?person=ann", ["ses_1"]),
        ("?person=nobody", []),
        ("?outcome=rejected", ["ses_1"]),
        ("?outcome=allowed", []),
        ("?open=true", ["ses_2"]),
        ("?since=2027-01-15T08:30:00Z", ["ses_2"]),
        ("?until=2027-01-15T08:30:00Z", ["ses_1"]),
    ],
)
async def test_past_sessions_are_found_again(
    root: Caller, ledger: Ledger, clock: Any, query: str, found: list[str]
) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop"})
    await root.ask("ses_1", request_id="r1")
    session = await ledger.attach("ses_1")
    await session.reply("r1", "reject", actor="ann")
    await root.post("/v1/sessions/ses_1/close", {"reason": "done"})
    clock.advance("1h")
    await root.put("/v1/sessions/ses_2", {"agent": "build"})
    await project_everything(ledger)
    assert [one["session"] for one in (await root.get(f"/v1/sessions{query}")).json()["sessions"]] == found


async def test_pages_of_sessions_follow_each_other(root: Caller, ledger: Ledger, clock: Any) -> None:
    for number in range(5):
        await root.put(f"/v1/sessions/ses_{number}")
        clock.advance("1s")
    await project_everything(ledger)
    seen: list[str] = []
    query = "?limit=2"
    while True:
        page = (await root.get(f"/v1/sessions{query}")).json()
        seen += [one["session"] for one in page["sessions"]]
        if page["cursor"] is None:
            break
        query = f"?limit=2&cursor={page['cursor']}"
    assert seen == ["ses_4", "ses_3", "ses_2", "ses_1", "ses_0"]


async def test_a_session_is_shown_as_it_was(root: Caller, ann: Caller, clock: Any) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop"})
    clock.advance("1s")
    await root.ask("ses_1", request_id="r1", always=["git push *"])
    clock.advance("1s")
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "session"})
    then = (await ann.get("/v1/sessions/ses_1/state?at=2")).json()["state"]
    assert ([one["request_id"] for one in then["pending"]], then["approved"]) == (["r1"], [])
    at = (await ann.get("/v1/sessions/ses_1/state?at=2027-01-15T08:00:01.500Z")).json()
    assert (at["version"], len(at["state"]["pending"])) == (2, 1)
    now = (await ann.get("/v1/sessions/ses_1/state")).json()["state"]
    assert (now["pending"], [one["pattern"] for one in now["approved"]]) == ([], ["git push *"])
    assert [one["outcome"] for one in now["settled"]] == ["allowed"]


async def test_the_timeline_tells_what_happened_and_the_chain_is_verified(
    root: Caller, ann: Caller, ledger: Ledger
) -> None:
    await root.put("/v1/sessions/ses_1")
    await root.ask("ses_1", request_id="r1")
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    await project_everything(ledger)
    first = (await ann.get("/v1/sessions/ses_1/timeline?limit=2")).json()
    assert ([one["version"] for one in first["lines"]], first["version"], first["cursor"]) == ([1, 2], 3, 2)
    rest = (await ann.get("/v1/sessions/ses_1/timeline?after=2")).json()
    assert ([one["text"] for one in rest["lines"]], rest["cursor"]) == (["ann allowed bash `git push` (once)"], None)
    verified = (await ann.get("/v1/sessions/ses_1/verify")).json()
    assert (verified["ok"], verified["versions"], verified["problems"]) == (True, 3, [])


async def test_verify_names_rules_that_cannot_be_read(root: Caller, ann: Caller, admin: Operator) -> None:
    await root.put("/v1/sessions/ses_1")
    [key] = await admin.run("KEYS", "*:r:*")
    await admin.run("DEL", key)
    verified = (await ann.get("/v1/sessions/ses_1/verify")).json()
    [problem] = verified["problems"]
    assert (verified["ok"], problem["version"], problem["kind"]) == (False, 1, "missing")
    assert problem["text"].startswith("RULES_UNREADABLE: ")
    assert "`policy:" in problem["text"]


async def test_a_grant_is_made_listed_and_revoked(root: Caller, ann: Caller) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop"})
    body = {"project": "shop", "permission": "bash", "patterns": ["git push"], "expires": "1h", "reason": "release"}
    [made] = (await ann.post("/v1/grants", body)).json()["grants"]
    assert (made["by"], made["reason"], made["expires_at"]) == ("ann", "release", "2027-01-15T09:00:00.000Z")
    assert (await root.ask("ses_1")).json()["outcome"] == "allowed"
    for query in ("", "?project=shop", "?session=ses_1"):
        assert [one["grant_id"] for one in (await ann.get(f"/v1/grants{query}")).json()["grants"]] == [made["grant_id"]]
    assert (await ann.delete(f"/v1/grants/{made['grant_id']}?reason=over")).status_code == 204
    assert (await root.ask("ses_1")).status_code == 202
    assert (await ann.get("/v1/grants?project=shop")).json() == {"grants": []}


async def test_a_person_who_is_there_makes_a_request_attended(root: Caller, ann: Caller) -> None:
    await root.put("/v1/sessions/ses_1", {"answering": "lock-holder"})
    assert (await ann.put("/v1/sessions/ses_1/clients/phone")).json() == {"lock": "phone", "replayed": []}
    asked = (await root.ask("ses_1", request_id="r1")).json()["request"]
    assert (asked["tier"], asked["deadline"]) == ("attended", "2027-01-15T08:01:00.000Z")
    assert (await ann.put("/v1/sessions/ses_1/clients/desk")).json()["replayed"][0]["is_replay"] is True
    assert (await ann.delete("/v1/sessions/ses_1/clients/phone")).status_code == 204
    assert (await root.get("/v1/sessions/ses_1")).json()["lock"] == "desk"


async def test_who_is_online_is_shown_by_leases_and_written_nowhere(root: Caller, ann: Caller, gateway: Served) -> None:
    await root.put("/v1/sessions/ses_1")
    for _ in range(2):
        assert (await ann.put("/v1/sessions/ses_1/clients/phone")).json() == {"lock": None, "replayed": []}
    bob = await gateway.caller("approver", "bob")
    await bob.put("/v1/clients/desk")
    online = [{"client_id": one, "name": name, "since": None} for one, name in (("desk", "bob"), ("phone", "ann"))]
    assert (await root.get("/v1/sessions/ses_1")).json()["clients"] == online
    now = (await root.get("/v1/sessions/ses_1/state")).json()
    assert (now["state"]["clients"], now["clients_are"], now["version"]) == (online, "online", 1)
    past = (await root.get("/v1/sessions/ses_1/state?at=1")).json()
    assert (past["state"]["clients"], past["clients_are"]) == ([], "recorded")
    for refused in (
        await bob.put("/v1/sessions/ses_1/clients/phone"),
        await bob.delete("/v1/sessions/ses_1/clients/phone"),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    await ann.delete("/v1/sessions/ses_1/clients/phone")
    await bob.delete("/v1/clients/desk")
    row = (await root.get("/v1/sessions/ses_1")).json()
    assert (row["clients"], row["version"]) == ([], 1)


async def test_every_connection_counts_in_a_session_without_a_least_gain(root: Caller, ann: Caller, clock: Any) -> None:
    deadlines = {}
    for session, gain in (("ses_1", {"least_gain": "1ms"}), ("ses_2", {})):
        await root.put(f"/v1/sessions/{session}", {"timeouts": gain})
        asked = (await root.ask(session, request_id="r1")).json()["request"]
        clock.advance("1s")
        await ann.put(f"/v1/sessions/{session}/clients/phone")
        (row,) = (await ann.get(f"/v1/pending?session={session}")).json()["pending"]
        deadlines[session] = parse_time(row["deadline"]) - parse_time(asked["deadline"])
    assert deadlines == {"ses_1": 1000, "ses_2": 0}
    none = await root.put("/v1/sessions/ses_3", {"timeouts": {"least_gain": "none"}})
    assert (none.status_code, none.json()["code"]) == (422, "INPUT")


async def test_the_open_inbox_makes_requests_of_all_sessions_attended(root: Caller, ann: Caller) -> None:
    await root.put("/v1/sessions/ses_1")
    await root.ask("ses_1", request_id="r1")
    replayed = (await ann.put("/v1/clients/phone")).json()["replayed"]
    assert [one["request_id"] for one in replayed] == ["r1"]
    assert (await ann.put("/v1/clients/phone")).json() == {"replayed": []}
    asked = (await root.ask("ses_1", "git pull")).json()["request"]
    assert asked["tier"] == "attended"
    assert (await ann.delete("/v1/clients/phone")).status_code == 204


async def test_the_inbox_of_one_project_makes_its_requests_attended_also_those_of_sessions_to_come(
    gateway: Served, root: Caller
) -> None:
    bob = await gateway.caller("approver", "bob", projects=["shop"])
    assert (await bob.put("/v1/clients/desk")).json() == {"replayed": []}
    tiers = {}
    for session, project in (("ses_1", "shop"), ("ses_2", "bank")):
        await root.put(f"/v1/sessions/{session}", {"project": project})
        tiers[session] = (await root.ask(session, request_id="r1")).json()["request"]["tier"]
    assert tiers == {"ses_1": "attended", "ses_2": "unattended"}
    # Renewed by the same token, and by another of his; a device of his own that nobody else may speak for.
    admin = await gateway.caller("admin", "bob")
    assert (await bob.put("/v1/clients/desk")).json() == {"replayed": []}
    assert [one["session"] for one in (await admin.put("/v1/clients/desk")).json()["replayed"]] == ["ses_1", "ses_2"]
    carl = await gateway.caller("approver", "carl", projects=["shop"])
    for answer in (await carl.put("/v1/clients/desk"), await carl.delete("/v1/clients/desk")):
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    assert (await bob.delete("/v1/clients/desk")).status_code == 204
    assert (await root.ask("ses_1", "git pull")).json()["request"]["tier"] == "unattended"


async def test_rules_are_asked_without_a_session(ann: Caller) -> None:
    line = {"id": "a", "dialect": "opencode", "config": {"permission": {"bash": {"ls*": "allow"}}}}
    call = {"tool": "bash", "input": {"command": "ls -l"}}
    assert (await ann.post("/v1/policy/check", {**line, **call})).json()["verdict"] == "allow"
    both = (await ann.post("/v1/policy/check", [{**line, **call}, {"id": "b"}])).json()
    assert [one.get("verdict", "error") for one in both] == ["allow", "error"]
    explained = (await ann.post("/v1/policy/explain", {**line, **call})).json()
    assert (explained["verdict"], explained["rules"][0]["text"]) == ("allow", "bash ls* allow")


async def test_every_way_to_look_at_a_request_serves_one_description(root: Caller) -> None:
    await root.put("/v1/sessions/ses_1", {"project": "shop", "cwd": "/srv/shop"})
    given = {"command": "rm -rf build", "cmd": "ls"}
    said = {"request_id": "r1", "tool_name": "bash", "input": given, "cwd": "/srv/shop"}
    answer = await root.post("/v1/sessions/ses_1/asks", said)
    assert "description" not in answer.json()["request"]
    [listed] = (await root.get("/v1/pending")).json()["pending"]
    description = listed["description"]
    assert [(one["label"], one["text"]) for one in description["sections"]][:2] == [*given.items()]
    assert [one["kind"] for one in description["dangers"]] == ["deletes"]
    looked_at = await root.get("/v1/sessions/ses_1/asks/r1")
    shown = looked_at.json()["request"]
    session = (await root.get("/v1/sessions/ses_1/state")).json()["state"]["pending"]
    assert [shown["description"], *(one["description"] for one in session)] == [description] * 2
