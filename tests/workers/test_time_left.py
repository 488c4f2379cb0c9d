"""The time left of a request: a deadline that has passed is told in words, never as a duration."""

from __future__ import annotations

import pytest

from workers.presentation.words import time_left


@pytest.mark.parametrize(
    ("deadline_ms", "told"),
    [
        (None, "no deadline"),
        (61_000, "1m left"),
        (1_500, "0s left"),
        (1_000, "deadline passed"),
        (0, "deadline passed"),
    ],
)
def test_the_time_left_is_a_duration_only_before_the_deadline(deadline_ms: int | None, told: str) -> None:
    assert time_left(deadline_ms, 1_000, " left") == told
