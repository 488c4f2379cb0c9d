"""The page of errors states the right exit code of each error."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.core.errors import LedgerError
from ledger.policy.errors import PolicyError
from ledger.stores.embedded.errors import EmbeddedServerError
from tests.house.sources import ROOT
from workers.cli.base import exit_of
from workers.cli.output import WORST_FIRST, Exit

PAGE = ROOT / "docs" / "reference" / "errors.md"
ROW = re.compile(r"^\| (\d+) \| ([^|]*) \|", re.MULTILINE)

PUBLIC = {"ledger.core.errors", "ledger.policy.errors", "ledger.stores.embedded.errors"}

LEFT_OUT = {"UNAUTHORIZED", "REFUSED", "REPLY"}
"""Errors left off the page: one that only a gateway raises, and two bases that nothing raises."""


def _errors(kind: type[LedgerError]) -> Iterator[type[LedgerError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


def test_every_error_stands_on_the_page_with_the_exit_code_that_it_has() -> None:
    assert {PolicyError, EmbeddedServerError} <= set(_errors(LedgerError))
    told = {
        code: int(exit_code)
        for exit_code, codes in ROW.findall(PAGE.read_text(encoding="utf-8"))
        for code in re.findall(r"`([A-Z_]+)`", codes)
    }
    public = [one for one in _errors(LedgerError) if one.__module__ in PUBLIC]
    is_so = {one.code: int(exit_of(one("no word"))) for one in public if one.code not in LEFT_OUT}
    assert {code: told.get(code) for code in is_so} == is_so


def test_every_exit_code_has_a_row_and_the_order_of_several_is_that_of_the_command_line() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert {int(exit_code) for exit_code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == set(Exit)
    assert f"in this order: {', '.join(str(int(code)) for code in WORST_FIRST)}." in text
