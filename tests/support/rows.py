"""Many rows in one test: all that fail are named together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

SHOWN_MAX: Final = 20
"""Rows whose failures are told in full."""

Test = Callable[..., Any]
Rows = Iterable[Any] | Callable[[], Iterable[Any]]


def every(names: str | tuple[str, ...], rows: Rows, ids: Callable[[Any], str] = ascii) -> Callable[[Test], Test]:
    """Give a test each row of a table, as `pytest.mark.parametrize` does, in one test.

    `names` is one name, or a tuple of them where a row has several values. A function as `rows` is called when the test
    runs, so that collecting costs nothing. `ids` names a row. Fixtures are the same for all rows.
    The test fails with the number of the rows that failed and the first of them, and where there are no rows.
    """

    def decorate(test: Test) -> Test:
        def cases() -> Iterator[tuple[str, dict[str, Any]]]:
            for row in rows() if callable(rows) else rows:
                values = {names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))
                yield ids(row)[:200], values

        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            tally = _Tally()
            for name, values in cases():
                with tally.row(name):
                    test(*args, **fixtures, **values)
            tally.close()

        @functools.wraps(test)
        async def run_async(*args: Any, **fixtures: Any) -> None:
            tally = _Tally()
            for name, values in cases():
                with tally.row(name):
                    await test(*args, **fixtures, **values)
            tally.close()

        chosen: Test = run_async if inspect.iscoroutinefunction(test) else run
        given = inspect.signature(test)
        others = [
            one for one in given.parameters.values() if one.name not in ([names] if isinstance(names, str) else names)
        ]
        chosen.__signature__ = given.replace(parameters=others)  # type: ignore[attr-defined] # pytest reads fixtures there
        return chosen

    return decorate


def none_of(offenders: Iterable[str], instead: str = "") -> None:
    """Fail where there are offenders of a rule, and name all; `instead` says what to do."""
    if found := list(offenders):
        raise AssertionError(f"{len(found)} against the rule. {instead}\n" + "\n".join(found))


class _Tally:
    """The rows that were tried, and the failures among them."""

    def __init__(self) -> None:
        self._tried = 0
        self._failed: list[tuple[str, BaseException]] = []

    @contextmanager
    def row(self, name: str) -> Iterator[None]:
        self._tried += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the other rows are tried all the same
            self._failed.append((name, error))

    def close(self) -> None:
        assert self._tried, "there are no rows"
        if self._failed:
            told = [f"--- {name}\n{_told(error)}" for name, error in self._failed[:SHOWN_MAX]]
            rest = len(self._failed) - len(told)
            told += [f"--- and {rest} more: " + ", ".join(name for name, _ in self._failed[SHOWN_MAX:])] if rest else []
            raise AssertionError(
                f"{len(self._failed)} of {self._tried} rows failed\n" + "\n".join(told)
            ) from self._failed[0][1]


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
