"""Rows say a call in words: the server, the tool and every member, on one line, and nothing passes for anything else."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.events import Actor
from ledger.session.state import Request
from ledger.session.would_run import LINE_CHARS, describe, summary_of, would_run
from ledger.session.would_run.members import LONG_VALUE_CHARS, call_in_words, one_line, tool_in_words
from workers.presentation.text import fitted, revealed

ISSUE: Final = "mcp__github__create_issue"

WORDS: Final[list[tuple[str, dict[str, Any], str]]] = [
    (ISSUE, {"title": "Add a test", "repo": "shop"}, 'github: create_issue, title "Add a test", repo shop'),
    (
        ISSUE,
        {"title": "x", "labels": ["bug", "a b"], "n": 7},
        'github: create_issue, title x, labels [bug, "a b"], n 7',
    ),
    ("mcp__a__b__c", {"x": None}, "a: b__c, x null"),
    ("refund", {"order": "42", "amount": 42}, 'refund, order "42", amount 42'),
    ("refund", {"really": "true", "now": True}, 'refund, really "true", now true'),
    ("refund", {"of": {"id": [1]}}, 'refund, of {"id":[1]}'),
    ("refund", {"why": ""}, 'refund, why ""'),
    ("refund", {"why": 'he said "x, order 1"'}, r'refund, why "he said \"x, order 1\""'),
    ("refund", {"a b": "c"}, 'refund, "a b" c'),
    ("ls, path x", {"a": "b"}, '"ls, path x", a b'),
    ("mcp__git hub__x", {"a": "b"}, '"mcp__git hub__x", a b'),
    ("run", {"host": "live", "command": "rm -rf x"}, 'run, command "rm -rf x", host live'),
    ("note", {"body": "b" * 61, "to": "ann"}, f"note, to ann, body {'b' * 61}"),
]

NAMES = st.text(min_size=1, max_size=6)
SCALARS = st.text(max_size=8) | st.integers() | st.booleans() | st.none()
_TOKEN: Final = re.compile(r', ("(?:[^"\\]|\\.)*"|[^" ]+) ("(?:[^"\\]|\\.)*"|[^", ]+)', re.DOTALL)


def _request(tool: str, given: Any, **more: Any) -> Request:
    return Request(
        request_id="r1",
        version=1,
        asked_ms=0,
        asker=Actor("agent", "w"),
        digest="",
        permission=tool,
        tool_name=tool,
        input=given,
        **more,
    )


@pytest.mark.parametrize(("tool", "value", "words"), WORDS)
def test_a_tool_of_unknown_meaning_is_said_in_words(tool: str, value: dict[str, Any], words: str) -> None:
    assert describe(tool, tool_name=tool, tool_input=value).in_words() == words


def _read(text: str, *, is_name: bool) -> Any:
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    if not is_name and re.fullmatch(r"-?[0-9]+|true|false|null", text):
        return json.loads(text)
    return text


@given(st.dictionaries(NAMES, SCALARS, min_size=1, max_size=5))
def test_the_input_can_be_read_back_from_its_words(value: dict[str, Any]) -> None:
    words = call_in_words("refund", value).removeprefix("refund")
    found = list(_TOKEN.finditer(words))
    assert "".join(one[0] for one in found) == words
    read = {_read(one[1], is_name=True): _read(one[2], is_name=False) for one in found}
    assert {name: (type(one), one) for name, one in read.items()} == {
        name: (type(one), one) for name, one in value.items()
    }


@given(st.text(max_size=40))
def test_a_line_has_no_line_break_and_two_texts_never_share_one(text: str) -> None:
    assert "\n" not in one_line(text)
    assert one_line(text).replace("⏎", "\n").replace("\\u23ce", "⏎") == text or "\\u23ce" in text


def test_a_pipe_over_several_lines_is_one_line_with_its_breaks_visible() -> None:
    found = describe("bash", tool_input={"command": "cat a |\n  sort\n# ⏎"})
    assert found.texts == ("cat a |\n  sort\n# ⏎",)
    assert found.in_line() == "`cat a |⏎  sort⏎# \\u23ce`"
    assert found.as_call("bash") == "bash `cat a |⏎  sort⏎# \\u23ce`"
    assert revealed(found.in_line()) == found.in_line()


def test_the_permission_is_left_out_only_where_the_words_begin_with_it() -> None:
    found = describe(ISSUE, tool_name=ISSUE, tool_input={"repo": "shop"})
    assert found.as_call(ISSUE) == "`github: create_issue, repo shop`"
    assert found.as_call("mcp") == "mcp `github: create_issue, repo shop`"


def test_a_settled_request_keeps_the_words_of_its_input() -> None:
    asked = _request(ISSUE, {"title": "Add a test", "body": "b" * 400})
    summary = summary_of(asked)
    settled = would_run(_request(ISSUE, None, summary=summary))
    said = would_run(asked).in_words()
    assert settled.as_call(ISSUE, None) == f"`{said}`"
    assert said.endswith("more characters)")
    assert len(summary[0]) < LINE_CHARS + 30


def test_a_request_that_passes_for_a_told_tool_is_shown_with_its_permission() -> None:
    settled = would_run(_request("bash", None, summary=("github: create_issue, repo shop",)))
    assert settled.as_call("bash") == "bash `github: create_issue, repo shop`"


def test_a_pattern_that_is_the_input_as_json_is_not_said_twice() -> None:
    value = {"title": "Add a test", "n": 1}
    judged = (json.dumps(value, separators=(",", ":")), "elsewhere")
    found = describe(ISSUE, judged, tool_name=ISSUE, tool_input=value)
    assert found.judged_as == ("elsewhere",)


def test_long_members_stand_last_so_that_a_cut_shows_the_short_ones() -> None:
    value = {"padding": "x" * (LONG_VALUE_CHARS + LINE_CHARS), "repo": "shop", "path": "/etc/passwd"}
    said = describe(ISSUE, tool_name=ISSUE, tool_input=value).in_words()
    assert said.startswith("github: create_issue, path /etc/passwd, repo shop, padding xxx")
    assert said.endswith(f"… ({len(call_in_words(ISSUE, value)) - LINE_CHARS} more characters)")


@pytest.mark.parametrize("name", ["mcp__github", "mcp____x", "mcp__a__\u202eb", "mcp__a__b c"])
def test_a_name_that_is_no_server_and_tool_is_not_split(name: str) -> None:
    assert ": " not in tool_in_words(name)


@given(st.text(alphabet="abc", max_size=60), st.integers(20, 40))
def test_a_text_that_does_not_fit_says_how_much_is_missing(text: str, chars: int) -> None:
    shown = fitted(text, chars)
    head, _, more = shown.partition("… ")
    assert len(shown) <= chars
    assert len(head) + int(more.removesuffix(" more") or 0) == len(text)
    assert text.startswith(head)
