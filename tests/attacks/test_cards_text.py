"""Attacks on what a person reads before an answer: each tries to have something run that the description hides."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.events import Actor
from ledger.session.state import Request
from ledger.would_run.describing import describe_request
from ledger.would_run.model import Description, Section


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
