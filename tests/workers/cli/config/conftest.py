"""A person with an empty home and a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.cli.config.person import Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)
