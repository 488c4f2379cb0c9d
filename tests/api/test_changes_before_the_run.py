"""A table of changes between an approval and the run of its call: each is refused, or reopened with its reason."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from ledger import Ledger, LedgerError, ReopenedError, Runner, Session
from ledger.core.events import Reopened
from ledger.testing import TestClock

RUNNER: Final = Runner("worker-1", "call_1")
ASKS: Final = {"permission": {"*": "ask"}}
CALL: Final = "call_1"

Change = Callable[["World"], Awaitable[object] | None]
Asked = tuple[str, dict[str, Any]]


class World(NamedTuple):
    """A ledger with one session, the folder in which its call would run, and the server's clock."""

    ledger: Ledger
    session: Session
    folder: Path
    clock: TestClock


class Changed(NamedTuple):
    """One row: the call as approved, the change, and the words in which it is refused or reopened."""

    name: str
    asked: Asked
    change: Change
    code: str
    says: str
    rules: Any = ASKS
    reply: Any = "once"
    edited: Mapping[str, Any] | None = None
    again: Asked | None = None
    """The call asked under the same request id after the change; None for a claim of the approved one."""
    place: str | None = None
    opening: Mapping[str, Any] = MappingProxyType({})


def bash(command: str, **more: Any) -> Asked:
    return "bash", {"command": command, **more}


def read(path: str) -> Asked:
    return "read", {"filePath": path}


def edit(path: str, old: str = "a", new: str = "b") -> Asked:
    return "edit", {"filePath": path, "oldString": old, "newString": new}


# --- files and links ------------------------------------------------------------------------------------------------


def write(name: str) -> Change:
    return lambda world: _write(world.folder / name)


def _write(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.write_text("rm -rf /\n")


def append(name: str) -> Change:
    def change(world: World) -> None:
        with (world.folder / name).open("a") as file:
            file.write("# more\n")

    return change


def remove(name: str) -> Change:
    return lambda world: (world.folder / name).unlink()


def empty(name: str) -> Change:
    def change(world: World) -> None:
        (world.folder / name).write_text("")

    return change


def lead(name: str, to: str) -> Change:
    """Put a link in the place of a file, a folder or another link."""

    def change(world: World) -> None:
        path = world.folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    return change


SCRIPTS: Final = {
    "./deploy.sh": "deploy.sh",
    "bash -e deploy.sh": "deploy.sh",
    "sh deploy.sh staging": "deploy.sh",
    "sudo ./deploy.sh": "deploy.sh",
    "python tools/run.py": "tools/run.py",
    "node tools/run.js": "tools/run.js",
    "perl tools/run.pl": "tools/run.pl",
    "make all": "Makefile",
    "npm run build": "package.json",
    "cd tools && python run.py": "tools/run.py",
}
FILE_CHANGES: Final[dict[str, Callable[[str], Change]]] = {
    "other content": write,
    "a line more": append,
    "no content": empty,
    "removed": remove,
    "a link to another file": lambda name: lead(name, "/etc/hostname"),
}


def scripts() -> list[Changed]:
    return [
        Changed(f"script: {line}: {what}", bash(line), change(file), "REOPENED", r"after it was approved|leads to `")
        for line, file in SCRIPTS.items()
        for what, change in FILE_CHANGES.items()
    ]


LINKED: Final = {
    "near.txt": "docs/a.txt",
    "out/key": "../outside/key",
    "chain/key": "../outside/key",
    "docs/a.txt": None,
    "docs/new.txt": None,
    "deep/up/docs/a.txt": "..",
}
LINK_CHANGES: Final = {
    "near.txt": (("near.txt", "../outside/key"), ("near.txt", "/etc/hostname"), ("docs/a.txt", "../../outside/key")),
    "out/key": (("out", "docs"), ("out", "/etc"), ("out", "../other")),
    "chain/key": (("chain", "docs"), ("out", "/etc"), ("out", "../other")),
    "docs/a.txt": (("docs/a.txt", "/etc/hostname"), ("docs", "../outside"), ("docs/a.txt", "../../outside/key")),
    "docs/new.txt": (("docs/new.txt", "/etc/new"), ("docs", "../outside"), ("docs/new.txt", "../../outside/key")),
    "deep/up/docs/a.txt": (("deep/up", "../../outside"), ("deep", "/etc"), ("docs", "../outside")),
}


def links() -> list[Changed]:
    return [
        Changed(
            f"link: {tool} {path}: {name} -> {to}", call, lead(name, to), "REOPENED", r"leads to `/.*` now, and to `/"
        )
        for path, changes in LINK_CHANGES.items()
        for name, to in changes
        for tool, call in (("read", read(path)), ("edit", edit(path)), ("bash", bash(f"cat {path}")))
    ]


# --- what is asked ----------------------------------------------------------------------------------------------------

ARGUMENTS: Final = (
    (bash("make all"), bash("make clean")),
    (bash("make all"), bash("make all ")),
    (bash("make all"), bash("make  all")),
    (bash("make all"), bash("make all && git push")),
    (bash("make all"), bash("make all > log")),
    (bash("make all"), bash("make all", timeout=5)),
    (bash("make all"), bash("make all", workdir="tools")),
    (bash("make all"), bash("make all", description="build")),
    (bash("git push"), bash("git push --force")),
    (bash("git push origin main"), bash("git push origin production")),
    (bash("rm a.txt"), bash("rm -r a.txt")),
    (bash("curl https://example.com"), bash("curl https://example.com/x")),
    (bash("echo 'a'"), bash('echo "a"')),
    (bash("ls -l"), bash("ls -la")),
    (bash("kill 12"), bash("kill 1")),
    (read("docs/a.txt"), read("docs/b.txt")),
    (read("docs/a.txt"), read("./docs/a.txt")),
    (read("docs/a.txt"), ("read", {"filePath": "docs/a.txt", "offset": 1})),
    (edit("docs/a.txt"), edit("docs/b.txt")),
    (edit("docs/a.txt"), edit("docs/a.txt", new="c")),
    (edit("docs/a.txt"), edit("docs/a.txt", old="c")),
    (edit("docs/a.txt"), ("edit", {**edit("docs/a.txt")[1], "replaceAll": True})),
    (("webfetch", {"url": "https://example.com"}), ("webfetch", {"url": "https://example.org"})),
    (("task", {"subagent_type": "explore"}), ("task", {"subagent_type": "general"})),
)
ENVIRONMENT: Final = (
    (bash("make all"), bash("CC=evil make all")),
    (bash("A=1 make all"), bash("A=2 make all")),
    (bash("A=1 make all"), bash("make all")),
    (bash("env A=1 make all"), bash("env B=1 make all")),
    (bash("make all"), bash("make all", env={"CC": "evil"})),
    (bash("make all", env={"CC": "gcc"}), bash("make all", env={"CC": "evil"})),
    (bash("npm test"), bash("NODE_OPTIONS=--require=./x.js npm test")),
    (bash("git log"), bash("GIT_PAGER=./x git log")),
    (bash("python x.py"), bash("PYTHONPATH=/tmp python x.py")),
    (bash("ls"), bash("LD_PRELOAD=./x.so ls")),
)
TOOLS: Final = (
    (bash("make all"), ("read", {"command": "make all"})),
    (bash("make all"), ("mcp__shell__bash", {"command": "make all"})),
    (read("docs/a.txt"), ("edit", read("docs/a.txt")[1])),
    (read("docs/a.txt"), ("list", read("docs/a.txt")[1])),
    (edit("docs/a.txt"), ("write", edit("docs/a.txt")[1])),
    (edit("docs/a.txt"), ("multiedit", edit("docs/a.txt")[1])),
    (("webfetch", {"url": "https://example.com"}), ("read", {"url": "https://example.com"})),
    (("grep", {"pattern": "x"}), ("glob", {"pattern": "x"})),
    (("mcp__shop__refund", {"order": 1}), ("mcp__shop__pay", {"order": 1})),
    (("task", {"subagent_type": "explore"}), ("skill", {"subagent_type": "explore"})),
)


def nothing(_: World) -> None:
    """The change lies in the question itself."""


def other_calls() -> list[Changed]:
    kinds = {"argument": ARGUMENTS, "environment": ENVIRONMENT, "tool": TOOLS}
    return [
        Changed(f"{kind}: {asked} -> {again}", asked, nothing, "DIFFERENT_REQUEST", "was asked", again=again)
        for kind, rows in kinds.items()
        for asked, again in rows
    ]


def folders() -> list[Changed]:
    fetch: Asked = ("webfetch", {"url": "https://example.com"})
    asked = [(bash("make all"), place) for place in ("tools", "docs", "deep")]
    asked += [(fetch, place) for place in ("tools", "..", "/", "/etc", "out")]
    found = [
        Changed(
            f"folder: {call} in {place}", call, nothing, "DIFFERENT_REQUEST", "was asked in", again=call, place=place
        )
        for call, place in asked
    ]
    calls = (read("docs/a.txt"), edit("docs/a.txt"), bash("cat docs/a.txt"), bash("rm docs/a.txt"))
    return found + [
        Changed(f"folder: replaced by a link: {call}", call, _replace_folder, "REOPENED", "leads to `/")
        for call in calls
    ]


def _replace_folder(world: World) -> None:
    """The project's folder becomes a link to another one with the same files."""
    other = world.folder.with_name("evil")
    shutil.copytree(world.folder, other, symlinks=True)
    shutil.rmtree(world.folder)
    world.folder.symlink_to(other)


# --- rules, grants, edits, age ----------------------------------------------------------------------------------------


def rules_of_now(rules: Any) -> Change:
    return lambda world: world.ledger.session(world.session.id, rules={"permission": rules})


RULED: Final[tuple[tuple[Asked, dict[str, Any], dict[str, Any]], ...]] = (
    (bash("git push"), {"bash": "allow"}, {"bash": "ask"}),
    (bash("git push"), {"bash": {"git *": "allow"}}, {"bash": {"git *": "ask"}}),
    (bash("git push"), {"bash": {"git *": "allow"}}, {"bash": {"git *": "allow", "git push": "ask"}}),
    (bash("git push"), {"bash": {"git *": "allow"}}, {"edit": "allow"}),
    (read("docs/a.txt"), {"read": "allow"}, {"read": "ask"}),
    (read("docs/a.txt"), {"read": "allow"}, {"read": {"*": "allow", "docs/*": "ask"}}),
    (edit("docs/a.txt"), {"edit": "allow"}, {"edit": "ask"}),
    (edit("docs/a.txt"), {"edit": {"docs/*": "allow"}}, {"edit": {"src/*": "allow"}}),
    (("webfetch", {"url": "https://example.com"}), {"webfetch": "allow"}, {"webfetch": "ask"}),
    (("task", {"subagent_type": "explore"}), {"task": "allow"}, {"task": {"explore": "ask"}}),
    (("mcp__shop__refund", {"order": 1}), {"*": "allow"}, {"*": "allow", "mcp__*": "ask"}),
)  # fmt: skip
DENIED: Final[tuple[tuple[Asked, dict[str, Any]], ...]] = (
    (bash("git push"), {"bash": "deny"}),
    (bash("git push"), {"bash": {"git *": "deny"}}),
    (bash("git push -f"), {"bash": {"*": "allow", "git push --force": "deny"}}),
    (bash("cat docs/a.txt"), {"read": {"docs/*": "deny"}}),
    (read("docs/a.txt"), {"read": "deny"}),
    (read("near.txt"), {"read": {"docs/*": "deny"}}),
    (edit("docs/a.txt"), {"edit": {"*.txt": "deny"}}),
    (("webfetch", {"url": "https://example.com"}), {"webfetch": "deny"}),
    (("task", {"subagent_type": "explore"}), {"task": "deny"}),
    (("mcp__shop__refund", {"order": 1}), {"mcp__shop__*": "deny"}),
)  # fmt: skip


def rules() -> list[Changed]:
    stricter = [
        Changed(
            f"rule: {call}: {was} -> {now}",
            call,
            rules_of_now(now),
            "REOPENED",
            "the current rules no longer allow it",
            {"permission": was},
            None,
        )
        for call, was, now in RULED
    ]
    denied = [
        Changed(
            f"rule: {call}: {now} after {reply}",
            call,
            rules_of_now(now),
            "DENIED",
            "rule",
            {"permission": {"*": first}},
            reply,
        )
        for call, now in DENIED
        for first, reply in (("ask", "once"), ("ask", "session"), ("allow", None))
    ]
    return stricter + denied


async def _revoke(world: World) -> None:
    for one in [*await world.session.approved(), *await world.ledger.approved_in_project("shop")]:
        await world.ledger.revoke(one.grant.grant_id)


GRANTED: Final = (bash("git push"), edit("docs/a.txt"), ("mcp__shop__refund", {"order": 1}))


def grants() -> list[Changed]:
    answered = [
        Changed(f"grant: {call} after {reply}", call, _revoke, "REOPENED", "no longer in force", reply=reply)
        for call in GRANTED
        for reply in ("session", "always")
    ]
    later = [
        Changed(
            f"age: {call} after {reply}",
            call,
            _two_minutes_later,
            "REOPENED",
            "it was allowed more than 60 seconds ago",
            reply=reply,
            opening={"approval_lifetime": 60},
        )
        for call in GRANTED
        for reply in ("once",)
    ]
    return answered + later


def edits() -> list[Changed]:
    """A person's edit before the allow, and a later change before the run."""
    rows: list[tuple[Asked, Mapping[str, Any], Change, str]] = [
        (
            bash("make all"),
            {"command": "make dist"},
            rules_of_now({"bash": {"*": "ask", "make dist": "deny"}}),
            _EDITED,
        ),
        (bash("make all"), {"command": "rm x"}, rules_of_now({"*": "ask", "bash": {"rm *": "deny"}}), _EDITED),
        (bash("ls"), {"command": "cat near.txt"}, rules_of_now({"*": "ask", "read": {"docs/*": "deny"}}), _EDITED),
        (edit("docs/a.txt"), edit("docs/b.txt")[1], rules_of_now({"*": "ask", "edit": {"*/b.txt": "deny"}}), _EDITED),
        (read("docs/a.txt"), read("docs/key")[1], rules_of_now({"*": "ask", "read": {"*/key": "deny"}}), _EDITED),
        (read("docs/a.txt"), read("near.txt")[1], lead("near.txt", "/etc/hostname"), "leads to `/etc/hostname` now"),
        (edit("docs/a.txt"), edit("out/key")[1], lead("out", "docs"), "leads to `/"),
        (bash("ls"), {"command": "cat near.txt"}, lead("near.txt", "docs/key"), "leads to `/"),
    ]
    return [
        Changed(f"edit: {call} made {edited}: {says}", call, change, "REOPENED", says, edited=edited)
        for call, edited, change, says in rows
    ]


_EDITED: Final = "the current rules deny the changed input"


def _two_minutes_later(world: World) -> None:
    world.clock.advance(120_000)


ROWS: Final = [*scripts(), *links(), *other_calls(), *folders(), *rules(), *grants(), *edits()]


def test_the_table_has_two_hundred_rows() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder, outside = tmp_path.resolve() / "shop", tmp_path.resolve() / "outside"
    for one in (folder / "tools", folder / "docs", folder / "deep", outside, tmp_path / "other"):
        one.mkdir(parents=True)
    for name in ("deploy.sh", "Makefile", "docs/a.txt", "docs/key", "tools/run.py", "tools/run.js", "tools/run.pl"):
        (folder / name).write_text(f"{name}\n")
    (folder / "package.json").write_text('{"scripts": {"build": "tsc"}}\n')
    (outside / "key").write_text("key\n")
    for name, to in (("near.txt", "docs/a.txt"), ("out", "../outside"), ("chain", "out"), ("deep/up", "..")):
        (folder / name).symlink_to(to)
    return folder


@pytest.fixture
async def ledger() -> AsyncIterator[tuple[Ledger, TestClock]]:
    clock = TestClock()
    async with Ledger.connect("memory://", clock=clock, entry_points=False) as ledger:
        yield ledger, clock


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_what_changed_does_not_run(row: Changed, ledger: tuple[Ledger, TestClock], folder: Path) -> None:
    ledger_, clock = ledger
    session = await ledger_.session("ses_1", rules=row.rules, project="shop", cwd=str(folder), **row.opening)
    world = World(ledger_, session, folder, clock)
    await _allow(session, row)
    done = row.change(world)
    if done is not None:
        await done
    with pytest.raises(LedgerError) as refused:
        await _run(session, row, folder)
    assert refused.value.code == row.code
    assert re.search(row.says, f"{refused.value} {refused.value.data.get('reason')}")
    if isinstance(refused.value, ReopenedError):
        [reopened] = [one.event async for one in session.events(follow_on=False) if isinstance(one.event, Reopened)]
        assert reopened.detail is not None
        assert reopened.detail.reason == refused.value.data["reason"]
    assert "claimed" not in [one.type async for one in session.events(follow_on=False)]


async def _allow(session: Session, row: Changed) -> None:
    """Ask as an agent on this machine does, and answer until the call is allowed."""
    while not (result := await session._submit_here(*row.asked, CALL, {})).allowed:
        assert (row.reply, result.outcome) != (None, None), result
        await session.reply(result.request_id, row.reply, updated_input=row.edited, actor="ann")


async def _run(session: Session, row: Changed, folder: Path) -> None:
    """Claim what was approved, or ask for the other call under the same id."""
    if row.again is None:
        await session.claim(CALL, runner=RUNNER)
    else:
        place = {} if row.place is None else {"cwd": str(folder / row.place)}
        await session._submit_here(*row.again, CALL, {**place, "claim": RUNNER})  # type: ignore[typeddict-item]
