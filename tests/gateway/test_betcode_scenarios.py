"""The scenarios of `betcode.md`, every one, over HTTP and event streams, with everything as processes of its own.

The rules are the scenario's own, in the dialect `betcode`. Time is real and short: 60 s of a scenario are `ATTENDED_S`
and 7 days are `UNATTENDED_S`; where the spec's texts name them, so do ours.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, TypeAlias

import pytest

from ledger.core.times import parse_time, spell_duration
from tests.api.test_betcode_scenarios import DATA, SCENARIOS
from tests.gateway.betcode_world import PEOPLE, World, running_world
from tests.gateway.callers import Caller
from tests.gateway.events.listening import Told, listening
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

Row: TypeAlias = dict[str, Any]

ATTENDED_S: Final = 3.0
UNATTENDED_S: Final = 6.0
MINUTE_S: Final = 60
WEEK_S: Final = 604_800
TIMEOUTS: Final = {"attended": "3s", "unattended": "6s"}
TEXTS: Final = {
    "60 seconds": spell_duration(round(ATTENDED_S * 1000)),
    "7 days": spell_duration(round(UNATTENDED_S * 1000)),
}


def real_seconds(scenario_s: float) -> float:
    """So much of a scenario's time, as it is lived through here."""
    return scenario_s / MINUTE_S * ATTENDED_S if scenario_s < WEEK_S / 7 else scenario_s / WEEK_S * UNATTENDED_S


def rules_of(given: Row) -> Row:
    """`allow Bash(git *)` and the like as BetCode's configuration."""
    permissions: dict[str, list[str]] = {}
    for rule in given.get("rules", ()):
        action, _, text = rule.partition(" ")
        permissions.setdefault(action, []).append(text)
    return {"permissions": permissions}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("betcode")) as world:
        yield world


@pytest.fixture
async def callers(world: World) -> AsyncIterator[dict[str, Caller]]:
    made = {name: world.caller(name) for name in ("claude", "prometheus", *PEOPLE)}
    yield made
    for caller in made.values():
        await caller.http.aclose()


class Daemon:
    """A session as the scenario has it: the agent asks over HTTP, people look at streams and answer."""

    def __init__(self, world: World, callers: dict[str, Caller], session: str) -> None:
        self.world = world
        self.callers = callers
        self.path = f"/v1/sessions/{session}"
        self.began_s = time.time()
        self.asked = 0
        self.asking: dict[str, asyncio.Task[Row]] = {}
        self.shown: list[Told] = []
        self.shown_again: list[Told] = []
        self.answers: list[Any] = []

    async def open(self, scenario: Row) -> None:
        given = scenario["given"]
        body = {
            "project": self.path.rpartition("/")[2],
            "dialect": "betcode",
            "options": {"profile": "faithful"},
            "rules": rules_of(given),
            "cwd": DATA["session"]["working_directory"],
            "timeouts": TIMEOUTS,
            "answering": given.get("answering", "lock-holder"),
            "cascade_reject": "none",
        }
        opened = await self.callers["claude"].put(self.path, body)
        assert opened.status_code == 201, opened.text
        for grant in given.get("grants", ()):
            session = self.path.rpartition("/")[2]
            row = {"session": session, "permission": grant["permission"], "patterns": [grant["pattern"]]}
            assert (await self.callers["c1"].post("/v1/grants", row)).status_code == 201

    async def look(self, ready: asyncio.Event) -> None:
        """Read the session's event stream from now on, and collect what it shows."""
        async with listening(self.callers["c2"], f"{self.path}/events") as reader:
            await reader.named("snapshot.end")
            ready.set()
            while (told := await reader.next()) is not None:
                self.shown.append(told)

    async def connect(self, client: str) -> None:
        caller = self.callers[client]
        answer = await caller.put(f"{self.path}/clients/{client}")
        assert answer.status_code == 200, answer.text
        async with listening(caller, f"{self.path}/events") as reader:
            *self.shown_again, _ = await reader.named("snapshot.end")
        replayed = answer.json()["replayed"]
        assert all(one["is_replay"] for one in replayed)
        assert [one["request_id"] for one in replayed] == [one.data["request_id"] for one in self.shown_again]

    async def until(self, at_s: float) -> None:
        end_s = self.began_s + real_seconds(at_s)
        await wait_until_async(lambda: time.time() >= end_s, f"{at_s} s of the scenario")

    async def live_through(self, step: Row) -> None:
        if "at_s" in step and self.asked:
            await self.until(step["at_s"])
        match step["do"]:
            case "ask":
                await self.ask(step)
            case "malformed_ask":
                body = {"permission": "", "patterns": ["*"], "request_id": "not an id"}
                await self.answered(self.callers["claude"].post(f"{self.path}/asks", body))
            case "connect":
                await self.connect(step["client"])
            case "disconnect":
                await self.callers[step["client"]].delete(f"{self.path}/clients/{step['client']}")
            case "reply":
                await self.answered(self.reply(step["client"], step["request"], step["word"]))
            case "two_replies":
                replies = zip(step["clients"], step["words"], strict=True)
                await asyncio.gather(
                    *(self.answered(self.reply(client, step["request"], word)) for client, word in replies)
                )
            case "wait":
                pass
            case other:
                raise AssertionError(other)

    async def ask(self, step: Row) -> None:
        """As Claude's control request says it; the agent then waits for as long as it takes."""
        body = {
            "tool_name": step["tool"],
            "input": step.get("input") or {"text": step["patterns"][0]},
            "request_id": step["request"],
        }
        first = await self.callers["claude"].post(f"{self.path}/asks", body)
        assert first.status_code in (200, 202), first.text
        if not self.asked:
            self.began_s = parse_time(first.json()["request"]["asked_at"]) / 1000
        self.asked += 1
        self.asking[step["request"]] = asyncio.create_task(self._wait(step["request"], first.json()))

    async def _wait(self, request_id: str, row: Row) -> Row:
        while row["outcome"] is None:
            row = (await self.callers["claude"].get(f"{self.path}/asks/{request_id}?wait=20")).json()
        return row

    def reply(self, client: str, request_id: str, word: str) -> Any:
        body = {"reply": word, "client_id": client}
        return self.callers[client].post(f"{self.path}/asks/{request_id}/reply", body)

    async def answered(self, sending: Any) -> None:
        answer = await sending
        row = answer.json()
        refused = answer.status_code >= 400
        self.answers.append({"code": row["code"], "message": row["detail"]} if refused else row["outcome"])

    async def log(self) -> list[Row]:
        events = (await self.callers["c1"].get(f"{self.path}/log?limit=1000")).json()["events"]
        return [row["event"] for row in events]

    async def pending(self) -> list[Row]:
        session = self.path.rpartition("/")[2]
        rows: list[Row] = (await self.callers["c1"].get(f"/v1/pending?session={session}")).json()["pending"]
        return sorted(rows, key=lambda row: row["version"])

    def told_on_stream(self, name: str) -> list[str]:
        return [one.data["request_id"] for one in self.shown if one.name == name]


class Expecting:
    """Expectations of a scenario, checked where BetCode's daemon, clients and metrics would show them."""

    def __init__(self, daemon: Daemon, counted_before: Counter[str]) -> None:
        self.daemon = daemon
        self.counted_before = counted_before

    async def check(self, expected: Row) -> None:
        await getattr(self, f"_{expected['that']}")(expected)

    async def _told(self, expected: Row) -> None:
        async with asyncio.timeout(60):
            row = await self.daemon.asking[expected["request"]]
        assert ("allow" if row["outcome"] == "allowed" else "deny") == expected["behavior"]
        if "message" in expected:
            wanted = expected["message"]
            for spec, here in TEXTS.items():
                wanted = wanted.replace(spec, here)
            assert row["message"] == wanted
        took_ms = parse_time(row["at"]) - parse_time(row["request"]["asked_at"])
        if "within_ms" in expected:
            assert took_ms <= expected["within_ms"]
        if "at_s" in expected:
            assert took_ms >= real_seconds(expected["at_s"]) * 1000
            assert "deadline_moved" not in [one["type"] for one in await self.daemon.log()]
        if expected.get("once"):
            own = [one["type"] for one in await self.daemon.log() if one.get("request_id") == expected["request"]]
            assert len([one for one in own if one not in ("asked", "notification")]) == 1

    async def _not_told(self, expected: Row) -> None:
        assert not self.daemon.asking[expected["request"]].done()

    async def _shown(self, expected: Row) -> None:
        if expected.get("replay"):
            shown = [(one.data["request_id"], one.data["is_replay"]) for one in self.daemon.shown_again]
            assert shown == [(request_id, True) for request_id in expected["requests"]]
            return
        wanted = expected["requests"]
        await wait_until_async(
            lambda: self.daemon.told_on_stream("permission.asked") == wanted, f"{wanted} to be shown"
        )
        if "tool" in expected:
            assert [one.data["tool_name"] for one in self.daemon.shown if one.name == "permission.asked"] == [
                expected["tool"]
            ]

    async def _pending(self, expected: Row) -> None:
        rows = await self.daemon.pending()
        assert [row["request_id"] for row in rows] == expected["requests"]
        if "lasts_s" in expected:
            (row,) = rows
            begun = [one for one in await self.daemon.log() if one["type"] in ("asked", "client_connected")]
            since = "connected" if begun[-1]["type"] == "client_connected" else "asked"
            left_ms = parse_time(row["deadline"]) - await self._time_of(since)
            assert left_ms == real_seconds(expected["lasts_s"]) * 1000

    async def _time_of(self, what: str) -> int:
        rows = (await self.daemon.callers["c1"].get(f"{self.daemon.path}/log?limit=1000")).json()["events"]
        wanted = "client_connected" if what == "connected" else "asked"
        return parse_time([row["at"] for row in rows if row["type"] == wanted][-1])

    async def _to_be_pushed(self, expected: Row) -> None:
        """To the registered device, and recorded."""
        where = f"in {self.daemon.path.rpartition('/')[2]} /"
        await wait_until_async(lambda: [one for one in self.daemon.world.phone.messages if where in one], "a push")
        sent = [one["request_id"] for one in await self.daemon.log() if one["type"] == "notification"]
        assert sent == expected["requests"]

    async def _timeouts(self, expected: Row) -> None:
        wanted = expected["count"]
        await wait_until_async(
            lambda: len(self.daemon.told_on_stream("permission.timeout")) >= wanted, f"{wanted} timeouts on the stream"
        )
        assert [one["type"] for one in await self.daemon.log()].count("expired") == wanted

    async def _decisions(self, expected: Row) -> None:
        async def counted() -> Counter[str]:
            return await self.daemon.world.decisions(self.daemon.callers["prometheus"]) - self.counted_before

        assert await wait_until_async(counted, f"the metric to grow by {expected['counted']}") == expected["counted"]

    async def _granted(self, expected: Row) -> None:
        session = self.daemon.path.rpartition("/")[2]
        rows = (await self.daemon.callers["c1"].get(f"/v1/grants?session={session}")).json()["grants"]
        names = ("scope", "permission", "pattern", "action")
        # Over the whole tool, which is written as a rule of this dialect: its name alone.
        wanted = [{**one, "pattern": one["permission"]} for one in expected["grants"] if one["pattern"] == "*"]
        assert [{name: row[name] for name in names} for row in rows] == wanted

    async def _logged(self, expected: Row) -> None:
        await wait_until_async(lambda: self.daemon.world.logged(expected["text"]), "the gateway to log it")

    async def _answered(self, expected: Row) -> None:
        wanted = expected["results"]
        assert [
            {name: got[name] for name in want} if isinstance(want, dict) else got
            for got, want in zip(self.daemon.answers, wanted, strict=True)
        ] == wanted

    async def _first_wins(self, expected: Row) -> None:
        async with asyncio.timeout(60):
            row = await self.daemon.asking[expected["request"]]
        (refused,) = [one for one in self.daemon.answers if isinstance(one, dict)]
        assert [one for one in self.daemon.answers if not isinstance(one, dict)] == [row["outcome"]]
        assert refused["code"] == "ALREADY_ANSWERED"
        assert f"already {row['outcome']} by {row['by']}" in refused["message"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["id"] for scenario in SCENARIOS])
async def test_a_scenario_of_betcode_goes_over_http_as_it_says(
    scenario: Row, world: World, callers: dict[str, Caller]
) -> None:
    daemon = Daemon(world, callers, scenario["id"])
    await daemon.open(scenario)
    is_counted = any(one["that"] == "decisions" for one in scenario["expect"])
    expecting = Expecting(daemon, await world.all_decisions(callers["prometheus"]) if is_counted else Counter())
    ready = asyncio.Event()
    looking = asyncio.create_task(daemon.look(ready))
    try:
        await asyncio.wait((looking, asyncio.create_task(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
        for client in scenario["given"]["clients"]:
            await daemon.connect(client)
        for step in scenario["steps"]:
            await daemon.live_through(step)
        for expected in scenario["expect"]:
            await expecting.check(expected)
    finally:
        tasks = [looking, *daemon.asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await callers["claude"].post(f"{daemon.path}/close", {})


async def test_an_open_stream_alone_is_nobody_and_a_page_that_says_so_is_somebody(
    world: World, callers: dict[str, Caller]
) -> None:
    path = "/v1/sessions/presence"
    agent, person = callers["claude"], callers["c1"]
    await agent.put(path, {"timeouts": {"attended": "60s", "unattended": "7d"}})
    async with listening(person, f"{path}/events") as stream, listening(person, "/v1/events") as inbox:
        await stream.named("snapshot.end")
        await inbox.named("stream.open")
        alone = (await agent.ask("presence", request_id="r1")).json()["request"]
        await person.put(f"{path}/clients/phone")
        page = (await agent.ask("presence", request_id="r2")).json()["request"]
        await person.delete(f"{path}/clients/phone")
        await person.put("/v1/clients/phone")
        # Another process's inbox is known after a second at the latest.
        tiers: list[str] = []

        async def attended() -> bool:
            tiers.append((await agent.ask("presence", str(len(tiers)))).json()["request"]["tier"])
            return tiers[-1] == "attended"

        await wait_until_async(attended, "an ask with the inbox open")
        await person.delete("/v1/clients/phone")
    assert (alone["tier"], page["tier"]) == ("unattended", "attended")
    await agent.post(f"{path}/close", {})


async def test_who_sees_one_project_is_there_for_what_its_sessions_ask_later(
    world: World, callers: dict[str, Caller]
) -> None:
    agent, person = callers["claude"], world.caller("c3")
    try:
        assert (await person.put("/v1/clients/tablet")).json() == {"replayed": []}
        rows = {}
        for project in ("bound", "elsewhere"):
            path = f"/v1/sessions/of-{project}"
            await agent.put(path, {"project": project, "timeouts": {"attended": "1s", "unattended": "7d"}})
            rows[project] = (await agent.ask(f"of-{project}", request_id="r1")).json()["request"]["tier"]
        assert rows == {"bound": "attended", "elsewhere": "unattended"}
        # The worker that ends it is a process of its own: it finds that person there, too.
        ended = (await agent.get("/v1/sessions/of-bound/asks/r1?wait=30")).json()
        assert (ended["outcome"], ended["message"]) == ("expired", "Permission request timed out after 1 second.")
        await person.delete("/v1/clients/tablet")
        await agent.put("/v1/sessions/of-nobody", {"project": "bound"})
        assert (await agent.ask("of-nobody", request_id="r1")).json()["request"]["tier"] == "unattended"
    finally:
        await person.http.aclose()
        for name in ("of-bound", "of-elsewhere", "of-nobody"):
            await agent.post(f"/v1/sessions/{name}/close", {})


async def test_who_follows_the_link_of_a_message_and_answers_lets_the_agent_go_on(
    world: World, callers: dict[str, Caller]
) -> None:
    agent, phone = callers["claude"], world.anybody()
    await agent.put("/v1/sessions/link", {"project": "link"})
    asking = asyncio.create_task(
        agent.post("/v1/sessions/link/asks?wait=30", {"permission": "bash", "patterns": ["ls"]})
    )
    try:
        (message,) = await wait_until_async(
            lambda: [one for one in world.phone.messages if "in link / link" in one], "the message"
        )
        link = message.splitlines()[-1]
        assert "Allow once" in (await phone.get(link)).text
        assert (await phone.http.post(link, data={"reply": "once"})).status_code == 200
        row = (await asking).json()
    finally:
        asking.cancel()
        await phone.http.aclose()
        await agent.post("/v1/sessions/link/close", {})
    assert (row["outcome"], row["by"]) == ("allowed", "c1")
