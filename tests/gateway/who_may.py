"""The table of who may do what, walked against a real gateway: every route, role, reach and content type.

`python -m tests.gateway.who_may > docs/reference/who-may-do-what.md` writes the page; `test_who_may_do_what` compares.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import msgspec
from litestar.handlers import HTTPRouteHandler

from ledger import Ledger
from ledger.stores.secrets import deployment_secret
from tests.gateway.callers import Caller, Served, application, in_process
from tests.support.indexing import index
from workers.gateway.authentication import operation_of
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings
from workers.runtime.answer_links import AnswerLink, AnswerLinks

SESSION, PROJECT = "ses_1", "shop"

AGENTS: Final[dict[str, dict[str, Any]]] = {
    "its own": {},
    "with rules": {"brings_rules": True},
    "another's": {"projects": [PROJECT]},
    "that session": {"sessions": [SESSION]},
    "everything": {"everything": True},
    "elsewhere": {"everything": True, "projects": ["bank"]},
}
PEOPLE: Final[dict[str, dict[str, Any]]] = {
    "all": {},
    "the project": {"projects": [PROJECT]},
    "that session": {"sessions": [SESSION]},
    "elsewhere": {"projects": ["bank"]},
}
COLUMNS: Final = [
    ("nobody", ""),
    *(("agent", reach) for reach in AGENTS),
    *((role, reach) for role in ("approver", "auditor", "admin") for reach in PEOPLE),
]

ASK: Final = {"permission": "bash", "patterns": ["git push"]}
BODIES: Final[dict[str, Any]] = {
    "open_session": {},
    "close_session": {},
    "ask": ASK,
    "reply": {"reply": "once"},
    "extend": {"reason": "typing"},
    "reply_to_many": {"reply": "once", "requests": [{"session": SESSION, "request_id": "r1", "digest": "d"}]},
    "record_answer": {"reply": "once", "prompt": "editor"},
    "cancel_ask": {},
    "note_tool_finished": {"request_id": "r1"},
    "claim_ask": {"runner": "job-7"},
    "finish_ask": {"runner": "job-7"},
    "release_claim": {},
    "end_claims": {"runner": "job-7"},
    "claude_hook": {"hook_event_name": "Stop", "session_id": SESSION},
    "opencode_reply": {"reply": "once"},
    "opencode_respond": {"response": "once"},
    "create_grant": {"project": PROJECT, "permission": "bash", "pattern": "git status"},
    "freeze": {"reason": "a drill", "project": PROJECT},
    "take_lock": {"client_id": "desk"},
    "pass_lock": {"client_id": "desk", "to": "desk"},
    "check_policy": {"dialect": "opencode", "tool": "bash", "input": {"command": "ls"}},
    "explain_policy": {"dialect": "opencode", "tool": "bash", "input": {"command": "ls"}},
    "challenge_answer": {"reply": "once"},
    "challenge_passkey": {"action": "register"},
    "register_passkey": {"name": "key ring", "response": {}, "nonce": "n", "until_ms": 0},
    "remove_passkey": {},
    "choose_notifications": {},
    "subscribe_device": {"name": "phone", "endpoint": "https://x", "keys": {"p256dh": "k", "auth": "a"}},
    "create_token": {"name": "new", "role": "auditor", "projects": [PROJECT]},
}
"""A valid body by operation; the other operations take none."""

LISTS: Final = {
    "list_sessions",
    "list_pending",
    "search_requests",
    "find_request",
    "list_grants",
    "list_tokens",
    "opencode_list",
}
"""Operations that list: their answer may be empty of the session and of everything in its project."""

OPEN_STREAMS: Final = {"session_events", "all_events", "opencode_events", "opencode_global_events"}

JSON: Final = "application/json"
OTHER_TYPES: Final = ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "image/png")

WORDS: Final = {401: "401", 403: "no", 404: "hidden"}


class Route(NamedTuple):
    """A route of the gateway; `path` has its places in braces."""

    method: str
    path: str
    operation: str


class World:
    """A session of project `shop` with a request, a grant and a token, and one caller a column."""

    def __init__(self, gateway: Served) -> None:
        self.gateway = gateway
        self.callers: dict[tuple[str, str], Caller] = {}
        self.root: Caller
        self.places: dict[str, str] = {}
        self._count = 0

    async def make(self) -> None:
        """Make the callers and the objects that they try to reach."""
        gateway, tokens = self.gateway, self.gateway.ledger.tokens
        self.root = await gateway.caller("admin", "root")
        for role, reach in COLUMNS:
            if role == "nobody":
                self.callers[role, reach] = await gateway.caller(None)
            else:
                scope = AGENTS[reach] if role == "agent" else PEOPLE[reach]
                self.callers[role, reach] = await gateway.caller(role, f"{role} {reach}", **scope)  # type: ignore[arg-type]
        own = await self.callers["agent", "its own"].put(f"/v1/sessions/{SESSION}", {"project": PROJECT})
        assert own.status_code == 201, own.text
        ruled = await self.callers["agent", "with rules"].put("/v1/sessions/ruled", {"project": PROJECT})
        assert ruled.status_code == 201, ruled.text
        for session in (SESSION, "ruled"):
            await self.root.ask(session, "git pull", request_id="r1")
        grant = await self.root.post("/v1/grants", {"project": PROJECT, "permission": "bash", "pattern": "make *"})
        token = await tokens.create("in-shop", "auditor", projects=[PROJECT])
        self.places = {
            "grant": grant.json()["grant_id"],
            "token": token.token.token_id,
            "link": await self._link(),
            "path": "icon.svg",
        }

    async def _link(self) -> str:
        row = (await self.root.get(f"/v1/sessions/{SESSION}/asks/r1")).json()
        expires_ms = self.gateway.gateway.now_ms + 3_600_000
        secret = await deployment_secret(self.gateway.ledger.store)
        return AnswerLinks(secret).sign(AnswerLink(SESSION, "r1", row["request"]["digest"], "root", expires_ms))

    async def ask(self, session: str) -> str:
        """A request that waits, of which no other caller knows the end."""
        self._count += 1
        request_id = f"per_{self._count}"
        asked = await self.root.ask(session, f"git push {self._count}", request_id=request_id)
        assert asked.status_code == 202, asked.text
        return request_id

    async def change(self) -> None:
        """Something happens in both sessions; then every reader of all sessions is told to read again."""
        for session in (SESSION, "ruled"):
            await self.ask(session)
        await self.gateway.gateway.events.changes.compare()
        self.gateway.ledger.streams.gap(0)


async def walk(gateway: Served) -> dict[Route, list[str]]:
    """Return what each caller gets of each route, in the order of the columns; a session is closed last."""
    world = World(gateway)
    await world.make()
    file = gateway.gateway.settings.index_file
    assert file is not None
    await index(gateway.ledger, file)
    found: dict[Route, list[str]] = {}
    for route in sorted(routes(gateway), key=lambda one: (one.operation == "close_session", one.path, one.method)):
        found[route] = [await _cell(world, route, column) for column in COLUMNS]
    return found


def routes(gateway: Served) -> Iterator[Route]:
    """The routes of a gateway, as its own application has them."""
    with application(gateway.gateway) as app:
        for route in app.routes:
            for handler in getattr(route, "route_handlers", ()):
                if isinstance(handler, HTTPRouteHandler):
                    place = (route.path_format, operation_of(handler))
                    if place[1] == "openapi" and place[0] != "/openapi.json":
                        continue  # the framework serves the document under more names
                    yield from (
                        Route(method, *place) for method in sorted(set(handler.http_methods) - {"OPTIONS", "HEAD"})
                    )


async def _cell(world: World, route: Route, column: tuple[str, str]) -> str:
    caller = world.callers[column]
    session = "ruled" if column == ("agent", "with rules") else SESSION
    path = await _path(world, route, session, "-".join(column).replace(" ", "-").replace("'", ""))
    body = BODIES.get(route.operation)
    if route.operation == "record_answer":
        path = path.replace("/r1/", f"/{await world.ask(session)}/")
    if route.operation == "create_token" and body is not None:
        body = {**body, "name": f"new of {' '.join(column)}"}  # a name belongs to who took it first
    if body is not None:
        await _refuses_other_types(caller, route, path)
    word = await _word(world, caller, route, path, body)
    if route.operation == "freeze":
        await world.root.delete(f"{path}?project={PROJECT}")
    return word


async def _path(world: World, route: Route, session: str, client: str) -> str:
    request_id = await world.ask(session) if route.operation in ("opencode_reply", "opencode_respond") else "r1"
    known = {"session": session, "request_id": request_id, "client": client, **world.places}
    path = route.path
    for name, value in known.items():
        path = path.replace(f"{{{name}}}", value).replace(f"{{{name}:path}}", value)
    return f"{path}?project={PROJECT}" if route.operation == "unfreeze" else path


async def _refuses_other_types(caller: Caller, route: Route, path: str) -> None:
    """No content type but JSON lets anybody do a thing, or learn more of it than they do with JSON."""
    with_json, *others = await asyncio.gather(*(_tried(caller, route, path, kind) for kind in (JSON, *OTHER_TYPES)))
    for kind, other in zip(OTHER_TYPES, others, strict=True):
        assert other == with_json or (other >= 400 and with_json not in WORDS), f"{route} {kind}: {other}, {with_json}"


async def _tried(caller: Caller, route: Route, path: str, kind: str) -> int:
    """The status of a request with what no route takes in it, so that nothing happens."""
    body = {**BODIES[route.operation], "no such member": 1}
    body |= {name: "nonsense" for name in ("reply", "response") if name in body}
    body |= {name: 7 for name in ("session_id",) if name in body}  # a hook's event may have further members
    answer = await caller.http.request(
        route.method, path, content=msgspec.json.encode(body), headers={"content-type": kind}
    )
    return answer.status_code


async def _word(world: World, caller: Caller, route: Route, path: str, body: Any) -> str:
    if route.operation in ("sign_in", "sign_out", "answer_by_link"):
        return "yes"  # without a token; what they check is another secret
    if route.operation in OPEN_STREAMS:
        return await _word_of_stream(world, caller, route, path)
    answer = await caller.http.request(route.method, path, json=body)
    if answer.status_code >= 500:
        raise AssertionError(f"{route}: {answer.status_code} {answer.text}")
    if body is None and answer.status_code == 400:  # a body that nobody gave tells nobody apart
        raise AssertionError(f"{route} needs a valid body: {answer.text}")
    if answer.status_code in WORDS:
        return WORDS[answer.status_code]
    if route.operation == "reply_to_many":
        return _told_of_one(answer)
    return "yes" if route.operation not in LISTS else _told(answer)


def _told_of_one(answer: httpx.Response) -> str:
    """The result of the only request in an answer to many; its digest is of no request."""
    code = answer.json()["replies"][0]["code"]
    return {"UNKNOWN_SESSION": "hidden", "DIGEST_MISMATCH": "yes"}[code]


def _told(answer: httpx.Response) -> str:
    return "yes" if any(f'"{one}"' in answer.text for one in (SESSION, PROJECT, "ruled")) else "nothing"


async def _word_of_stream(world: World, caller: Caller, route: Route, path: str) -> str:
    async with caller.http.stream(route.method, path) as answer:
        if answer.status_code in WORDS:
            return WORDS[answer.status_code]
        if route.operation != "all_events":
            return "yes"
        lines = []
        async for line in answer.aiter_lines():
            lines.append(line)
            if "stream.open" in line:
                await world.change()
            if "resync" in line:
                break
    return "yes" if f'"{SESSION}"' in "".join(lines) or '"ruled"' in "".join(lines) else "nothing"


# --- the page

HEAD: Final = """# Who may do what

Every route of the gateway, for every role and reach. Written by `python -m tests.gateway.who_may`, which does it all to a running
gateway, with every content type; a test compares this page with what happened. The object: session `ses_1` of project
`shop`, which the agent *its own* opened, with its requests; the project's grants; a token that is bound to the project.

| word | what it means |
|---|---|
| yes | done; of a list: the session, or what is in its project, is in it |
| nothing | a list or a stream without it |
| no | refused (403) |
| hidden | for this caller it does not exist (404) |
| 401 | a token is needed |

| reach | of an agent | of the others |
|---|---|---|
| its own | the default; it opened the session | |
| with rules | the same, made with `--brings-rules`, in a session of its own | |
| another's | the default, bound to the project; another token opened the session | |
| that session | `--session ses_1` | the same |
| everything | `--everything` | |
| elsewhere | `--everything --project bank` | `--project bank` |
| all | | bound to nothing |
| the project | | `--project shop` |

A content type other than `application/json` lets nobody do more, nor learn more, than this table says. It is refused, but by
OpenCode's own routes, which read JSON whatever its type, as OpenCode does.

A cell begins with the word for most reaches of the role; other reaches stand behind their word. *nobody* is anybody without a token.
"""


ROLES: Final = ("nobody", "agent", "approver", "auditor", "admin")


def page(found: dict[Route, list[str]]) -> str:
    """Return the page of the documentation: the routes in groups, of which all may be used alike."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for route, cells in sorted(found.items(), key=lambda one: (one[0].path, one[0].method)):
        groups.setdefault(tuple(_cell_of(cells, role) for role in ROLES), []).append(f"`{route.method} {route.path}`")
    rows = [f"| {'<br>'.join(names)} | {' | '.join(cells)} |" for cells, names in groups.items()]
    head = f"| routes | {' | '.join(ROLES)} |\n|---|{'---|' * len(ROLES)}"
    return "\n".join([HEAD, head, *rows]) + "\n"


def _cell_of(cells: list[str], role: str) -> str:
    """Return what a role gets of a route: the word of most reaches first, then each other word with its reaches."""
    reaches: dict[str, list[str]] = {}
    for (column_role, reach), word in zip(COLUMNS, cells, strict=True):
        if column_role == role:
            reaches.setdefault(word, []).append(reach)
    usual, *others = sorted(reaches, key=lambda word: -len(reaches[word]))
    return "; ".join([usual, *(f"{word}: {', '.join(reaches[word])}" for word in others)])


def words_of(cell: str, role: str) -> dict[str, str]:
    """Return the word of each reach, as a cell of the page says it."""
    usual, *others = cell.split("; ")
    words = dict.fromkeys((reach for column_role, reach in COLUMNS if column_role == role), usual)
    for other in others:
        word, _, reaches = other.partition(": ")
        words |= dict.fromkeys(reaches.split(", "), word)
    return words


def settings_in(folder: Path) -> GatewaySettings:
    """A gateway with rules of its own, in the dialect that agents without rules may use."""
    file = folder / "who-may.json"
    file.write_text('{"permission": {"*": "ask"}}')
    return GatewaySettings(policies={"opencode": rule_file("opencode", file)}, index_file=folder / "who-may.sqlite")


async def written(folder: Path) -> str:
    """Return the page as a gateway of this program makes it."""
    async with (
        Ledger.connect("memory://") as ledger,
        in_process(ledger, settings_in(folder)) as gateway,
    ):
        return page(await walk(gateway))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="pl-gw-") as name:
        sys.stdout.write(asyncio.run(written(Path(name))))
