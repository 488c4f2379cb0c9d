"""docs/reference/who-may-do-what.md against a running gateway: every route, role, reach and content type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway import who_may

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "who-may-do-what.md"
WALK_SECONDS = 300
"""Some three thousand requests, on a busy machine."""


def rows() -> dict[str, dict[str, dict[str, str]]]:
    """Return for each route and role the word of each reach, as the page has them."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `") and "/" in line:
            routes, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            words = {role: who_may.words_of(cell, role) for role, cell in zip(who_may.ROLES, cells, strict=True)}
            found.update(dict.fromkeys((route.strip("`") for route in routes.split("<br>")), words))
    return found


@pytest.mark.timeout(WALK_SECONDS)
async def test_the_page_says_what_every_caller_may_do(tmp_path: Path) -> None:
    # `python -m tests.gateway.who_may > docs/reference/who-may-do-what.md` writes it anew; look at what changed.
    assert PAGE.read_text(encoding="utf-8") == await who_may.written(tmp_path)


def test_no_agent_answers_grants_or_makes_tokens_by_any_route() -> None:
    cells = {route: words["agent"] for route, words in rows().items()}
    never = {
        "POST /v1/sessions/{session}/asks/{request_id}/reply",
        "POST /permission/{request_id}/reply",
        "POST /session/{session}/permissions/{request_id}",
        "POST /v1/grants",
        "DELETE /v1/grants/{grant}",
        "POST /v1/tokens",
        "GET /v1/tokens",
    }
    assert {word for name in never for word in cells[name].values()} == {"no"}


def test_what_is_elsewhere_is_reached_by_nobody() -> None:
    about = [words for route, words in rows().items() if "/v1/sessions/{session}" in route]
    assert len(about) > 20
    found = {(role, words[role]["elsewhere"]) for words in about for role in who_may.ROLES[1:]}
    assert found <= {(role, word) for role in who_may.ROLES[1:] for word in ("no", "hidden")}
