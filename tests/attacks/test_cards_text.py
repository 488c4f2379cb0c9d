"""Attacks on the descriptions that people read before an answer: each tries to run something that they hide."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import Ledger, Pending, Result, Session
from ledger.core.events import Actor
from ledger.policy import Layer, PolicySource
from ledger.session.state import Request, input_digest
from ledger.session.would_run import quoted
from ledger.session.would_run.description import Description, Section, describe_request
from ledger.testing import TestClock
from tests.support.rows import every
from workers.cli.description import card_lines
from workers.cli.log import event_line
from workers.cli.output import CommandOutput
from workers.cli.pending import COLUMNS, pending_cells
from workers.cli.show import print_moment
from workers.presentation.moments import Clients, moment_page
from workers.presentation.timeline import TimelineFold


def _request(tool: str, given: Any, **others: Any) -> Request:
    told = {"permission": tool, "tool_name": tool, "input": given, "cwd": "/srv/shop", "agent": None, **others}
    return Request(request_id="r1", version=1, asked_ms=0, asker=Actor("agent", "worker-7"), digest="", **told)


def _described(tool: str, given: Any, **others: Any) -> Description:
    return describe_request(_request(tool, given, **others))


def _shown(description: Description) -> list[tuple[str, str, str]]:
    return [(one.kind, one.label, one.text) for one in description.sections]


def _only(description: Description, kind: str) -> list[Section]:
    return [one for one in description.sections if one.kind == kind]


def test_hiding_a_command_beside_another() -> None:
    shown = _shown(_described("bash", {"command": "ls", "cmd": "rm -rf /"}))
    assert shown[:2] == [("command", "command", "ls"), ("command", "cmd", "rm -rf /")]


def test_hiding_a_path_beside_another() -> None:
    shown = _shown(_described("Edit", {"file_path": "README.md", "path": "/etc/passwd", "new_string": "x"}))
    assert ("path", "file_path", "README.md") in shown
    assert ("path", "path", "/etc/passwd") in shown


@pytest.mark.parametrize(("name", "kind"), [("content", "content"), ("patch", "patch"), ("diff", "patch")])
def test_hiding_a_second_change_beside_an_edit(name: str, kind: str) -> None:
    given = {"file_path": "a", "old_string": "one", "new_string": "two", name: "+ evil"}
    assert (kind, name, "+ evil") in _shown(_described("Edit", given))


def test_hiding_a_change_in_an_odd_list_of_edits() -> None:
    edits = [{"old_string": "a", "new_string": "b", "also_run": "rm x"}, "rm -rf y", 7, {"text": ["deep"]}, []]
    shown = _shown(_described("MultiEdit", {"file_path": "a", "old_string": "c", "new_string": "d", "edits": edits}))
    assert ("member", "edits[0].also_run", "rm x") in shown
    assert ("member", "edits[1]", "rm -rf y") in shown
    assert ("member", "edits[2]", "7") in shown
    assert ("member", "edits[3].text[0]", "deep") in shown
    assert ("member", "edits[4]", "[]") in shown


@pytest.mark.parametrize("count", [25, 65, 5_000])
def test_hiding_a_member_behind_many_others(count: int) -> None:
    given = {**{f"option_{number}": number for number in range(count)}, "then": "rm -rf /"}
    sections = _described("mcp__box__run", given).sections
    assert any("rm -rf /" in one.text for one in sections if one.origin == "input")
    assert len([one for one in sections if one.origin == "input"]) <= 65


def test_hiding_a_command_behind_many_members() -> None:
    given = {**{f"option_{number}": number for number in range(1_000)}, "command": "rm -rf /"}
    first = _described("mcp__box__run", given).sections[0]
    assert (first.kind, first.text) == ("command", "rm -rf /")


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("edit", {"filePath": "README.md", "oldString": "a", "newString": "b"}),
        ("webfetch", {"url": "https://example.org"}),
        ("ExitPlanMode", {"plan": "Tidy up the docs"}),
        ("question", {"questions": [{"question": "Tidy up the docs?"}]}),
    ],
)
def test_answering_for_a_pattern_that_nobody_sees(tool: str, given: Any) -> None:
    shown = _only(_described(tool, given, patterns=("deploy production now",)), "pattern")
    assert [(one.text, one.repeats) for one in shown] == [("deploy production now", False)]


def test_burying_the_pattern_in_the_middle_of_a_plan() -> None:
    plan = "Tidy up the docs\n" + "and more of it\n" * 99 + "deploy production now\n" + "and more of it\n" * 99
    pattern = _only(_described("ExitPlanMode", {"plan": plan}, patterns=("deploy production now",)), "pattern")[0]
    assert not pattern.repeats


def test_signing_with_the_name_of_another() -> None:
    description = _described("bash", {"command": "ls"}, agent="ann (approved)")
    assert [one.text for one in _only(description, "asker")] == ["worker-7"]
    assert [one.text for one in _only(description, "agent")] == ["ann (approved)"]


def test_calling_a_member_as_one_of_our_own_words() -> None:
    own = [one for one in _described("run", {"folder": "/safe", "asked by": "ann"}).sections if one.origin == "request"]
    assert [(one.label, one.text) for one in own if one.label in ("folder", "asked by")] == [
        ("folder", "/srv/shop"),
        ("asked by", "worker-7"),
    ]


def test_hiding_a_command_in_the_middle_of_a_long_line() -> None:
    line = "echo fine && " * 300 + "rm -rf /srv/other && " + "echo fine && " * 300 + "true"
    description = _described("bash", {"command": line})
    section = description.sections[0]
    assert "rm -rf /srv/other && " in section.rows
    assert "".join(section.rows) == line
    assert section.may_fold
    assert [one.kind for one in description.dangers][:2] == ["deletes", "outside"]


def test_passing_a_quoted_text_off_as_a_command() -> None:
    line = "git commit -m 'tidy; ls' && echo \"a && b\""
    section = _described("bash", {"command": line}).sections[0]
    assert section.rows == ("git commit -m 'tidy; ls' && ", 'echo "a && b"')


def test_hiding_what_an_argument_list_runs() -> None:
    words = ["bash", "-lc", "it's; rm -rf /"]
    sections = _described("shell", {"command": words}).sections
    assert any(words[2] in one.text for one in sections if one.label == "command")


def test_hiding_the_tail_of_a_diff() -> None:
    patch = "+++ b/README.md\n" + "+fine\n" * 5_000 + "+++ /etc/sudoers\n+ALL\n"
    description = _described("apply_patch", {"patchText": patch})
    assert description.sections[0].text == patch
    assert [one.part for one in description.dangers if one.kind == "outside"] == ["/etc/sudoers"]


@pytest.mark.parametrize("name", ["diff", "command", "anything"])
def test_hiding_a_text_in_the_metadata(name: str) -> None:
    description = _described("edit", {"filePath": "a"}, metadata={name: "rm -rf /"})
    assert any(one.text == "rm -rf /" and one.label == name and not one.repeats for one in description.sections)


@pytest.fixture
async def ledger(clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", clock=clock) as ledger:
        yield ledger


OUTSIDE = "cat /srv/other/notes && " + "echo and on && " * 200 + "rm -rf /srv/other"


async def _folder_asked(session: Session, command: str = OUTSIDE, **more: Any) -> Result:
    return await session.submit_tool("bash", {"command": command}, request_id="r1", cwd="/srv/shop", **more)


async def _session(ledger: Ledger, permission: Any = "ask") -> Session:
    policy = PolicySource("opencode", (Layer("project", config={"permission": permission}),), {"cwd": "/srv/shop"})
    return await ledger.session("ses_1", policy=policy)


async def test_hiding_the_command_behind_a_folder(ledger: Ledger) -> None:
    result = await _folder_asked(await _session(ledger))
    assert result.request.permission == "external_directory"
    first = describe_request(result.request).sections[0]
    assert (first.kind, first.label, first.text) == ("command", "behind.input.command", OUTSIDE)
    assert {"deletes", "outside"} <= {one.kind for one in describe_request(result.request).dangers}


async def test_lying_about_the_command_behind_a_folder(ledger: Ledger) -> None:
    result = await _folder_asked(
        await _session(ledger), metadata={"behind": {"tool": "bash", "input": {"command": "ls"}}}
    )
    assert describe_request(result.request).sections[0].text == OUTSIDE


async def test_running_another_command_in_a_folder_that_was_allowed_for_one(ledger: Ledger) -> None:
    session = await _session(ledger, {"*": "allow", "external_directory": "ask"})
    asked = await _folder_asked(session, "cat /srv/other/notes")
    await session.reply(asked.request_id, "once", actor="ann")
    call: dict[str, Any] = {"tool_name": "bash", "request_id": "r1", "cwd": "/srv/shop"}
    other = await session.submit("bash", ["rm -rf /srv/other"], tool_input={"command": "rm -rf /srv/other"}, **call)
    assert other.outcome != "allowed"


async def test_running_a_command_in_a_folder_that_was_asked_about_without_one(ledger: Ledger) -> None:
    session = await _session(ledger, {"*": "allow", "external_directory": "ask"})
    bare = await session.submit("external_directory", ["/srv/other/*"], request_id="r1.external_directory")
    await session.reply(bare.request_id, "once", actor="ann")
    call = {"command": "cat /srv/other/notes"}
    result = await session.submit("bash", [], tool_name="bash", tool_input=call, request_id="r1", cwd="/srv/shop")
    assert result.outcome is None


async def test_the_command_that_a_folder_was_allowed_for_runs(ledger: Ledger) -> None:
    session = await _session(ledger, {"*": "allow", "external_directory": "ask"})
    asked = await _folder_asked(session, "cat /srv/other/notes")
    await session.reply(asked.request_id, "once", actor="ann")
    assert (await _folder_asked(session, "cat /srv/other/notes")).outcome == "allowed"


async def test_a_command_for_which_there_is_no_room_is_bound_by_its_digest(ledger: Ledger) -> None:
    session = await _session(ledger)
    given = {"filePath": "/srv/other/a", "content": "x" * 261_000}
    result = await session.submit_tool("write", given, request_id="r1", cwd="/srv/shop")
    assert result.request.metadata["behind"] == {
        "tool": "write",
        "input_digest": input_digest(given),
        "input_bytes": len(msgspec.json.encode(given)),
    }
    await session.reply(result.request_id, "once", actor="ann")
    again = await session.submit_tool("write", given, request_id="r1", cwd="/srv/shop")
    assert again.request_id == "r1"


async def _shown_by_show(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> list[str]:
    moment = await ledger.state_at("ses_1", None)
    page = moment_page(moment.state, [], Clients("online", []), None)
    print_moment(CommandOutput(), moment, page, 0)
    return capsys.readouterr().out.splitlines()


HIDING: dict[str, Any] = {
    "command": "ls " * 2_000 + "&& rm -rf /srv/other",
    "cmd": "\u0441\u043e\u0440\u0443\u202e it\nrequest r2: harmless",
}


@pytest.fixture
async def hiding(ledger: Ledger) -> Result:
    session = await ledger.session("ses_1", agent="ann (approved)")
    actor = Actor("agent", "worker-7")
    return await session.submit_tool("bash", HIDING, request_id="r1", cwd="/srv/shop", actor=actor)


async def test_hiding_a_second_command_from_the_table_of_what_waits(ledger: Ledger, hiding: Result) -> None:
    (pending,) = await ledger.pending("ses_1")
    shown = str(dict(zip(COLUMNS, pending_cells(pending), strict=True))["what would run"])
    assert "more characters: `permission-ledger show` has them" in shown
    assert shown.startswith("! deletes, outside the folder: bash `ls ")
    card = card_lines(pending)
    assert "  asked by: worker-7" in card
    assert "  calls itself: ann (approved)" in card


async def test_hiding_a_second_command_from_show(
    ledger: Ledger, hiding: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = await _shown_by_show(ledger, capsys)
    assert "      rm -rf /srv/other" in lines
    assert r"      \u0441\u043e\u0440\u0443\u202e it" in lines
    assert "    U+0441 CYRILLIC SMALL LETTER ES (look-alike, looks like `c`)" in lines


async def test_forging_a_line_of_show(ledger: Ledger, hiding: Result, capsys: pytest.CaptureFixture[str]) -> None:
    lines = await _shown_by_show(ledger, capsys)
    assert "request r1:" in lines
    assert [line for line in lines if line.startswith("request r") and line != "request r1:"] == []


async def test_hiding_a_second_command_from_the_log(ledger: Ledger, hiding: Result) -> None:
    events = [event async for event in (await ledger.attach("ses_1")).events(follow_on=False)]
    fold = TimelineFold("ses_1")
    line = next(line for one in events if "  asked  " in (line := event_line(one, fold.line(one))))
    assert r"cmd: \u0441\u043e\u0440\u0443\u202e it⏎request r2: harmless" in line


async def test_reading_the_description_as_a_program(ledger: Ledger, hiding: Result) -> None:
    row = (await ledger.pending("ses_1"))[0].described()
    shown = [(one["kind"], one["text"]) for one in row["description"]["sections"]][:2]
    assert shown == [("command", HIDING["command"]), ("command", HIDING["cmd"])]


PIPED = "printf x | dd of=out"


@pytest.mark.parametrize(
    ("dialect", "line"),
    [("opencode", PIPED), ("brutus", PIPED), ("codelia", PIPED), ("opencode", f"echo x > f && {PIPED}")],
)
async def test_having_a_part_remembered_that_never_is(ledger: Ledger, dialect: str, line: str) -> None:
    session = await ledger.session("ses_1", policy=PolicySource(dialect, (), {"cwd": "/srv/shop"}))
    result = await session.submit_tool("bash", {"command": line}, request_id="r1", cwd="/srv/shop")
    assert result.request.always
    assert any("`dd of=out`" in one for one in result.request.still_asked)
    assert not any("`printf" in one for one in result.request.still_asked)


SPANS: Final = re.compile(r"(?<!`)(?P<fence>`+)(?!`)(?P<text>.*?)(?<!`)(?P=fence)(?!`)", re.DOTALL)
"""Texts in backticks as CommonMark reads them."""


def _read(line: str) -> list[str]:
    """Return the texts that a reader finds on a line; one in backticks at its edges has a space there."""
    found = [match["text"] for match in SPANS.finditer(line)]
    return [
        text[1:-1] if text.startswith(" ") and text.endswith(" ") and "`" in (text[1], text[-2]) else text
        for text in found
    ]


@every(
    "patterns",
    [("a`, `rm -rf /",), ("`date`", "x"), ("a`", "`b"), ("``, ``", "`"), ("a``b", "c```"), ("x` (judged as `y",)],
)
def test_making_one_pattern_read_as_two(patterns: tuple[str, ...]) -> None:
    assert _read(quoted(patterns, None)) == list(patterns)
    request = _request("mytool", None, patterns=patterns, always=patterns)
    cells = dict(zip(COLUMNS, pending_cells(Pending(session="s", request=request)), strict=True))
    assert _read(str(cells["what would run"])) == list(patterns)
    (line,) = [one for one in card_lines(Pending(session="s", request=request)) if "would allow" in one]
    assert _read(line.partition(": ")[2]) == list(patterns)


@given(st.lists(st.text("a`, ", min_size=1, max_size=8).filter(lambda text: text.strip() == text), max_size=4))
def test_no_texts_read_as_others(texts: list[str]) -> None:
    assert _read(quoted(texts, None)) == texts


def test_an_empty_text_begins_no_other() -> None:
    assert quoted(["", "a", ""], None) == "(empty), `a`, (empty)"
