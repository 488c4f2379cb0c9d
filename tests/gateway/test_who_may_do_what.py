"""docs/reference/who-may-do-what.md against a running gateway: every route, role, reach and content type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway import who_may

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "who-may-do-what.md"
WALK_SECONDS = 300
"""Some three thousand requests, on a busy machine."""


@pytest.mark.timeout(WALK_SECONDS)
async def test_the_page_says_what_every_caller_may_do(tmp_path: Path) -> None:
    # `python -m tests.gateway.who_may > docs/reference/who-may-do-what.md` writes it anew; look at what changed.
    assert PAGE.read_text(encoding="utf-8") == await who_may.written(tmp_path)


def test_no_agent_answers_grants_or_makes_tokens_by_any_route() -> None:
    rows = PAGE.read_text(encoding="utf-8").split("## An agent\n")[1].split("\n## ")[0].splitlines()
    cells = {row.split("`")[1]: row.split("|")[3:-1] for row in rows if row.startswith("| `")}
    never = {
        "reply",
        "opencode_reply",
        "opencode_respond",
        "create_grant",
        "revoke_grant",
        "create_token",
        "list_tokens",
    }
    assert {cell.strip() for name in never for cell in cells[name]} == {"no"}


def test_what_is_elsewhere_is_reached_by_nobody() -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    for section in sections[2:]:
        head, *rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")]
        place = [name.strip() for name in head].index("elsewhere")
        about = [row for row in rows if "/v1/sessions/{session}" in row[1]]
        assert about
        assert {row[place].strip() for row in about} <= {"no", "hidden"}
