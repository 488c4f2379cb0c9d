"""Answers observed from Claude Code, call by call, and the few calls for which the dialect differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import Call, Evaluation, Layer, PolicySource, Verdict, compile_policy
from tests.support.rows import every

DATA: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "policy" / "claude.json").read_text("utf-8"))
CWD, HOME = DATA["cwd"], DATA["home"]
STRICTNESS = ["allow", "ask", "deny"]
BY_TABLES = {
    "uniq a.txt", "sed s/x/y/ a.txt", "sed -e s/x/y/ a.txt", "sed -n /x/p a.txt", "git log -S'foo()' -- .",
    "git blame -L1,2 a.txt", "sort -k2 a.txt", "rg --files",
}  # fmt: skip
"""Read-only commands with options that the program asks about and that the tables of programs know."""

Row = list[Any]


def layers(group: dict[str, Any]) -> tuple[Layer, ...]:
    return tuple(
        Layer(name.removesuffix(" untrusted"), config={"permissions": lists}, trusted=not name.endswith(" untrusted"))
        for name, lists in group["layers"]
    )


def given(tool: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if tool == "Bash":
        return {"command": value, "description": "d"}
    if tool == "WebFetch":
        return {"url": value, "prompt": "x"}
    return {"file_path": value if value.startswith(("/", "~")) else f"{CWD}/{value}"}


def answer(group: dict[str, Any], tool: str, value: Any, profile: str) -> Evaluation:
    options = {"profile": profile, "cwd": CWD, "home": HOME, "fs": DATA["fs"], "mode": group.get("mode", "default")}
    policy = compile_policy(PolicySource("claude", layers(group), options))
    return policy.evaluate(Call(tool, (), tool, given(tool, value)))


def expected(row: Row) -> Row:
    """The row with its details: `ours` is the verdict where the reader is stricter, or its tables know more options.

    `line` stands for the message that names the whole line.
    """
    tool, value, verdict, details = (*row, {})[:4]
    verdict = details.get("ours", verdict)
    message = details.get("message")
    if message == "line":
        message = f"Permission to use Bash with command {value} has been denied."
    return [tool, value, verdict, details.get("always"), message]


def observed(group: dict[str, Any], row: Row) -> Row:
    tool, value, _, always, message = expected(row)
    found = answer(group, tool, value, "faithful")
    said = found.message if message is not None else None
    return [tool, value, found.verdict.value, list(found.always) if always is not None else None, said]


def named(group: dict[str, Any]) -> str:
    return ascii(json.dumps([group["layers"], group.get("mode", "")]))[:90]


@every("group", DATA["groups"], ids=named)
def test_the_faithful_profile_answers_as_the_program_did(group: dict[str, Any]) -> None:
    assert [observed(group, row) for row in group["rows"]] == [expected(row) for row in group["rows"]]


@every("group", DATA["groups"], ids=named)
def test_the_hardened_profile_is_never_looser_than_the_program(group: dict[str, Any]) -> None:
    hardened = [answer(group, row[0], row[1], "hardened").verdict.value for row in group["rows"]]
    looser = [
        (row, verdict)
        for row, verdict in zip(group["rows"], hardened, strict=True)
        if STRICTNESS.index(verdict) < STRICTNESS.index(row[2]) and row[1] not in BY_TABLES
    ]
    assert looser == []


def test_few_verdicts_on_bash_differ_from_the_program() -> None:
    rows = [row for group in DATA["groups"] for row in group["rows"] if row[0] == "Bash"]
    ours = [row for row in rows if (*row, {})[3].get("ours", row[2]) != row[2]]
    looser = {row[1] for row in ours if STRICTNESS.index(row[3]["ours"]) < STRICTNESS.index(row[2])}
    assert (len(rows), len(ours), looser) == (1984, 198, BY_TABLES | {"watch mytool push x"})


def test_the_hardened_profile_does_not_copy_what_is_unsafe() -> None:
    unsafe = [(group, row) for group in DATA["groups"] for row in group["rows"] if (*row, {})[3].get("unsafe")]
    assert unsafe
    assert [row for group, row in unsafe if answer(group, row[0], row[1], "hardened").verdict is Verdict.ALLOW] == []


@pytest.mark.parametrize("row", DATA["differences"], ids=lambda row: f"{row['tool']} {row['input']}")
def test_a_difference_from_the_program_is_a_listed_one_and_stricter(row: dict[str, Any]) -> None:
    group = {"layers": [["flag", row["rules"]]]}
    assert answer(group, row["tool"], row["input"], "faithful").verdict.value == row["ours"]
    assert STRICTNESS.index(row["ours"]) > STRICTNESS.index(row["theirs"])


def test_every_row_of_the_table_is_asked() -> None:
    assert sum(len(group["rows"]) for group in DATA["groups"]) == 3655
