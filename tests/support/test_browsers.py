"""A missing browser is always reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browsers import browser_left_out, chromium
from tests.support.programs import ALL_VARIABLE


@pytest.fixture
def without_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(ALL_VARIABLE, raising=False)


@pytest.mark.usefixtures("without_browser")
def test_a_browser_that_is_not_there_is_left_out_with_the_reason() -> None:
    assert browser_left_out() == "there is no `chromium` on the PATH"


@pytest.mark.usefixtures("without_browser")
def test_a_run_that_must_have_all_never_does_without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALL_VARIABLE, "1")
    assert browser_left_out() is None
    with pytest.raises(AssertionError, match="no Chromium on this machine"):
        chromium()
