"""A test of many rows fails with all rows that failed, and never passes over none."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import SHOWN_MAX, every, none_of


def test_all_failing_rows_are_named_with_what_was_found() -> None:
    seen: list[int] = []

    @every("number", [1, 2, 3, 4], ids=lambda number: f"row {number}")
    def small(number: int) -> None:
        seen.append(number)
        if number == 4:
            raise KeyError("four")
        assert number != 2, "two is even"

    with pytest.raises(AssertionError) as failure:
        small()
    assert seen == [1, 2, 3, 4]
    said = str(failure.value)
    assert said.splitlines()[:2] == ["2 of 4 rows failed", "--- row 2"]
    assert "two is even" in said
    assert said.splitlines()[-2:] == ["--- row 4", "KeyError: 'four'"]
    assert isinstance(failure.value.__cause__, AssertionError)


def test_an_error_that_is_awaited_in_vain_is_a_failed_row_too() -> None:
    @every("row", [1, 2])
    def raising(row: int) -> None:
        with pytest.raises(ValueError):  # noqa: PT012 - the first row raises nothing
            if row == 2:
                raise ValueError

    with pytest.raises(AssertionError, match=r"^1 of 2 rows failed\n--- 1\nFailed: DID NOT RAISE"):
        raising()


def test_the_first_failing_rows_are_told_in_full_and_the_others_by_name() -> None:
    @every("row", range(SHOWN_MAX + 2))
    def failing(row: int) -> None:
        raise AssertionError(f"told {row}")

    with pytest.raises(AssertionError) as failure:
        failing()
    assert str(failure.value).count("told") == SHOWN_MAX
    assert str(failure.value).endswith(f"--- and 2 more: {SHOWN_MAX}, {SHOWN_MAX + 1}")


@pytest.mark.parametrize("rows", [[], lambda: iter(())])
def test_a_table_without_rows_fails(rows: Any) -> None:
    @every("row", rows)
    def passing(row: object) -> None: ...

    with pytest.raises(AssertionError, match="there are no rows"):
        passing()


def test_two_tables_are_crossed_and_a_failure_names_the_row_of_both() -> None:
    seen = []

    @every("left", "ab")
    @every(("right", "more"), [(1, 2), (3, 4)])
    def crossed(left: str, right: int, more: int) -> None:
        seen.append((left, right, more))
        assert (left, right) != ("b", 3)

    with pytest.raises(
        AssertionError, match=r"(?s)1 of 2 rows failed\n--- 'b'\n1 of 2 rows failed\n--- \(3, 4\)\nassert"
    ):
        crossed()
    assert seen == [("a", 1, 2), ("a", 3, 4), ("b", 1, 2), ("b", 3, 4)]


def test_a_coroutine_is_given_all_rows_too() -> None:
    @every("row", [1, 2, 3])
    async def odd(row: int) -> None:
        await asyncio.gather()
        assert row % 2

    assert inspect.iscoroutinefunction(odd)
    with pytest.raises(AssertionError, match=r"^1 of 3 rows failed\n--- 2\n"):
        asyncio.run(odd())


@every("row", lambda: [1, 2])
def test_fixtures_are_given_to_every_row(row: int, tmp_path: Path) -> None:
    (tmp_path / str(row)).touch()
    assert len(list(tmp_path.iterdir())) == row


class TestMethods:
    @every("row", [1])
    def test_a_method_is_given_its_rows(self, row: int) -> None:
        assert row == 1


@pytest.mark.parametrize("found", [["a:1: x", "b:2: y"], iter(["a:1: x", "b:2: y"])])
def test_offenders_are_all_named(found: Iterable[str]) -> None:
    none_of([])
    with pytest.raises(AssertionError) as failure:
        none_of(found, "Do that.")
    assert str(failure.value).splitlines() == ["2 against the rule. Do that.", "a:1: x", "b:2: y"]
