"""The W3C trace context: what is valid, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.event_shapes import STATE_CHARS, TraceContext, read_trace_context

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"


def test_a_valid_context_is_read() -> None:
    found = read_trace_context(f" {VALID}\t", "a=1, b@v=2")
    assert found == TraceContext(VALID, "a=1,b@v=2")


@pytest.mark.parametrize("flags", ["00", "01", "02", "ff"])
def test_the_flags_are_kept(flags: str) -> None:
    parent = f"00-{TRACE}-{SPAN}-{flags}"
    assert read_trace_context(parent) == TraceContext(parent)


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert read_trace_context(f"cc-{TRACE}-{SPAN}-01-what-follows") == TraceContext(VALID)
    assert read_trace_context(f"cc-{TRACE}-{SPAN}-01") == TraceContext(VALID)


@pytest.mark.parametrize(
    "parent",
    [
        None,
        7,
        b"00",
        "",
        VALID[:-1],
        f"{VALID}-x",
        f"{VALID}x",
        f"cc-{TRACE}-{SPAN}-01x",
        f"ff-{TRACE}-{SPAN}-01",
        VALID.upper(),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        VALID.replace("-", "_"),
        VALID.replace("0", chr(0x660)),
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 300,
    ],
    ids=repr,
)
def test_any_other_is_ignored(parent: object) -> None:
    assert read_trace_context(parent, "a=1") is None


@pytest.mark.parametrize(
    "state",
    [
        None,
        7,
        "a",
        "=1",
        "A=1",
        "a=é",
        "a=1\r\nx: y",
        "a=1,a=2",
        "a" * STATE_CHARS + "=",
        ",".join(f"k{n}=1" for n in range(33)),
    ],
    ids=repr,
)
def test_a_state_that_is_not_valid_is_left_out(state: object) -> None:
    assert read_trace_context(VALID, state) == TraceContext(VALID)


@given(st.text(max_size=400), st.text(max_size=700))
def test_no_text_is_an_error(parent: str, state: str) -> None:
    found = read_trace_context(parent, state)
    assert found is None or len(found.state) <= STATE_CHARS
