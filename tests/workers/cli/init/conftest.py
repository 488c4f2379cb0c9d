"""A person with an empty home, a project, and agents on the PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.cli.config.person import Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """A person whose PATH has no agent; `agents` puts some there."""
    person = Person(tmp_path)
    (tmp_path / "bin").mkdir()
    person.environment["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    return person
