"""The tools of a release are found or reported, and uv takes packages from where pip takes them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support import release_tools
from tests.support.programs import ALL_VARIABLE
from tests.support.release_tools import index_environment, release_tests_left_out

FILE: Final = "global.index-url='mirror:a'"


@pytest.fixture
def without_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = release_tools.ROOT / "no-such-folder"
    for name in ("PYTHON", "UV", "MIKE"):
        monkeypatch.setattr(release_tools, name, folder / name.lower())
    monkeypatch.delenv(ALL_VARIABLE, raising=False)


@pytest.mark.usefixtures("without_tools")
def test_what_is_not_there_is_left_out_with_the_reason() -> None:
    left_out = release_tests_left_out()
    assert sorted(left_out) == sorted(
        path.name for path in (release_tools.ROOT / "tests" / "release").glob("test_*.py")
    )
    assert left_out["test_uvx.py"] == "`no-such-folder/uv` is missing; `make setup-release` makes it"


@pytest.mark.usefixtures("without_tools")
def test_a_run_that_must_have_all_leaves_none_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALL_VARIABLE, "1")
    assert release_tests_left_out() == {}


def test_uv_takes_packages_from_where_pip_takes_them() -> None:
    settings = [
        ":env:.index-url='mirror:b'",
        FILE,
        "global.extra-index-url='one\\ntwo'",
        "install.find-links='/wheels /more'",
        ":env:.no-index='1'",
        "global.cert='/certs.pem'",
        "global.default-timeout='180'",
    ]
    assert index_environment(settings) == {
        "UV_DEFAULT_INDEX": "mirror:b",
        "UV_INDEX": "one two",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_NO_INDEX": "1",
        "SSL_CERT_FILE": "/certs.pem",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


@pytest.mark.parametrize("said", ["0", "false", "no"])
def test_an_index_that_is_not_shut_off_stays(said: str) -> None:
    assert index_environment([FILE, f":env:.no-index={said!r}"]) == {
        "UV_DEFAULT_INDEX": "mirror:a",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
