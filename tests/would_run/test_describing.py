from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.events import Actor
from ledger.session.state import Request
from ledger.session.would_run.description import LONG_CHARS, LONG_LINES, Description, describe_request
from ledger.session.would_run.members import (
    AFTER_NAMES,
    BEFORE_NAMES,
    COMMAND_NAMES,
    LEAVES_COUNT,
    MEMBERS_COUNT,
    PATCH_NAMES,
    PATH_NAMES,
)
from ledger.session.would_run.odd_characters import marks_of

KNOWN = (*COMMAND_NAMES, *PATH_NAMES, *PATCH_NAMES, *BEFORE_NAMES, *AFTER_NAMES, "content", "url", "query", "plan")
NESTED = ("edits", "questions", "options", "answers", "question", "label", "description", "behind", "input")
KEYS = st.sampled_from((*KNOWN, *NESTED)) | st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=24,
)
INPUTS = st.dictionaries(KEYS, VALUES, max_size=8) | VALUES
TOOLS = st.sampled_from(["bash", "Edit", "webfetch", "ExitPlanMode", "question", "mcp__a__b", "external_directory"])


def _described(tool: str, given: Any = None, **more: Any) -> Description:
    told = {"permission": tool, "tool_name": tool, "input": given, "cwd": "/srv/shop", **more}
    return describe_request(
        Request(request_id="r1", version=1, asked_ms=0, asker=Actor("agent", "w"), digest="", **told)
    )


def _numbered(value: Any, numbers: Iterator[int]) -> Any:
    """The same value, in which no two texts and no two keys that are not known are equal."""
    if isinstance(value, Mapping):
        return {
            name if name in (*KNOWN, *NESTED) else f"{name}<{next(numbers)}>": _numbered(one, numbers)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_numbered(one, numbers) for one in value]
    return f"{value}<{next(numbers)}>" if isinstance(value, str) else value


def _words(value: Any) -> Iterator[str]:
    """Every key and every value at any depth, texts as they are and others as JSON; what is empty as JSON."""
    if isinstance(value, Mapping) and value:
        for name, one in value.items():
            yield name
            yield from _words(one)
    elif isinstance(value, list) and value:
        for one in value:
            yield from _words(one)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def _missing(description: Description, value: Any, origin: str) -> list[str]:
    shown = [text for one in description.sections if one.origin == origin for text in (one.label, one.text)]
    everything = "\n".join(shown)
    return [
        word
        for word in _words(value)
        if word not in everything and json.dumps(word, ensure_ascii=False)[1:-1] not in everything
    ]


@given(tool=TOOLS, value=INPUTS)
def test_every_key_and_every_value_of_an_input_stands_in_a_section(tool: str, value: Any) -> None:
    numbered = _numbered(value, count())
    if numbered is not None:
        assert _missing(_described(tool, numbered), numbered, "input") == []


@pytest.mark.slow
@given(tool=TOOLS, value=st.dictionaries(KEYS, VALUES, min_size=1, max_size=8))
def test_every_key_and_every_value_of_metadata_stands_in_a_section(tool: str, value: dict[str, Any]) -> None:
    numbered = _numbered(value, count())
    assert _missing(_described(tool, metadata=numbered), numbered, "metadata") == []


@given(st.integers(0, 3 * MEMBERS_COUNT), st.integers(0, 2 * LEAVES_COUNT))
def test_however_many_members_there_are_each_stands_in_a_section(members: int, edits: int) -> None:
    given = _numbered({f"member {number}": number for number in range(members)}, count())
    given["edits"] = [{"oldText": f"from <{number}>", "odd": number} for number in range(edits)]
    description = _described("edit", given)
    assert _missing(description, given, "input") == []
    assert len(description.sections) <= MEMBERS_COUNT + LEAVES_COUNT + 10


@given(
    patterns=st.lists(st.text(max_size=20), max_size=6), always=st.lists(st.text(max_size=20), max_size=6), value=INPUTS
)
def test_every_pattern_is_shown_or_stands_word_for_word_above(
    patterns: list[str], always: list[str], value: Any
) -> None:
    description = _described("bash", value, patterns=tuple(patterns), always=tuple(always))
    assert [one.text for one in description.sections if one.origin == "patterns"] == patterns
    assert [one.text for one in description.sections if one.origin == "always"] == always
    for at, one in enumerate(description.sections):
        if one.repeats:
            above = [text for other in description.sections[:at] for text in (other.text, *other.rows)]
            assert any(one.text == text or one.text == text.strip(" \t\n;&|") for text in above)


@pytest.mark.slow
@given(value=INPUTS)
def test_the_size_and_the_marks_of_a_section_are_those_of_its_text(value: Any) -> None:
    for one in _described("bash", value).sections:
        assert (one.lines, one.chars) == (one.text.count("\n") + 1, len(one.text))
        assert one.may_fold is (one.lines > LONG_LINES or one.chars > LONG_CHARS)
        assert (one.marks, one.label_marks) == (marks_of(one.text), marks_of(one.label))
        assert one.rows == () or "".join(one.rows) == one.text


@given(st.text(max_size=60))
def test_marks_stand_in_order_and_cover_whole_characters(text: str) -> None:
    ends = [0, *(end for one in marks_of(text) for end in (one.start, one.end))]
    assert ends == sorted(ends)
    assert ends[-1] <= len(text)
    assert all(one.start < one.end for one in marks_of(text))


def test_a_settled_request_is_described_by_what_was_kept_of_it() -> None:
    description = _described("bash", summary=("ls -la", "cmd: rm x"))
    assert [one.text for one in description.sections[:2]] == ["ls -la", "cmd: rm x"]
