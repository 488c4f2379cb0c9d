"""The Markdown of a plan as a small tree of allowed nodes, for a page that makes elements of them.

The agent writes a plan, and a person allows what it says. So nothing of it may be hidden: no HTML, no image is loaded, a
link shows its address, and a tree that would lack a letter or a digit of the text is not made; the text is shown then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ledger.session.state import Request

PLAN_CHARS_MAX: Final = 20_000
"""A longer plan is shown as it was written."""

NODES_MAX: Final = 5000

MARKS: Final = "[*_`<!\\\n"
MARKS_MAX: Final = 4000
"""The characters at which the parser looks for a node; each takes time of the gateway's loop, and an agent writes them."""

KEPT_COUNT: Final = 512
"""Trees that are kept, encoded: more than one token may have pending. Where each list parsed them anew, nobody could answer."""

Node = dict[str, Any] | str
"""A text, or `{"tag", "children"}`; a link has its `href`, an item of a numbered list its `number`, code its `info`."""

_TAGS: Final = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "em", "strong"})
_MEANT: Final = {"softbreak": "\n", "hardbreak": "\n"}

_PARSER: Final = MarkdownIt("commonmark", {"html": False}).disable(["reference", "image", "entity", "html_block"])
"""Reference definitions and entities would hide text; an image is a link with `!` before it."""


def plan_tree(request: Request) -> msgspec.Raw | None:
    """Return the tree of a request's plan as JSON; None without one, and where the tree would not show all of it."""
    plan = request.input.get("plan") if request.tool_name and isinstance(request.input, dict) else None
    if not isinstance(plan, str) or not plan.strip() or len(plan) > PLAN_CHARS_MAX:
        return None
    return _encoded_tree(plan)


@lru_cache(KEPT_COUNT)
def _encoded_tree(plan: str) -> msgspec.Raw | None:
    tree = markdown_tree(plan)
    return None if tree is None else msgspec.Raw(msgspec.json.encode(tree))


def markdown_tree(text: str) -> list[Node] | None:
    """Return the nodes of a Markdown text; None where they would lack a letter or a digit of it, or are too many."""
    if sum(map(text.count, MARKS)) > MARKS_MAX:
        return None
    try:
        tree = _nodes(_PARSER.parse(text))
    except (ValueError, RecursionError):
        return None
    shown = "".join(one for said in _said(tree) for one in said if one.isalnum())
    return tree if shown == "".join(one for one in text if one.isalnum()) else None


def _nodes(tokens: Sequence[Token]) -> list[Node]:
    """Return the tree of a flat list of tokens, in which each opening one has its closing one. Raises ValueError where it would hide some."""
    root: list[Node] = []
    open_ones: list[list[Node]] = [root]
    if len(tokens) > NODES_MAX:
        raise ValueError("too many nodes")
    for token in tokens:
        if token.nesting < 0:
            open_ones.pop()
        elif token.nesting > 0:
            node = _opened(token)
            open_ones[-1].append(node)
            open_ones.append(node["children"])
        else:
            open_ones[-1] += _leaf(token)
    return root


def _opened(token: Token) -> dict[str, Any]:
    children: list[Node] = []
    if token.type == "link_open":
        if token.attrs.get("title"):
            raise ValueError("a title is not drawn")
        return {
            "tag": "link",
            "href": "" if token.markup == "autolink" else str(token.attrs["href"]),
            "children": children,
        }
    if token.tag not in _TAGS:
        raise ValueError(f"no node is allowed for `{token.tag}`")
    number = {"number": token.info} if token.tag == "li" and token.info else {}
    return {"tag": token.tag, **number, "children": children}


def _leaf(token: Token) -> list[Node]:
    match token.type:
        case "inline":
            return _nodes(token.children or [])
        case "text" | "text_special":
            return [token.content] if token.content else []
        case "code_inline":
            return [{"tag": "code", "children": [token.content]}]
        case "fence" | "code_block":
            return [{"tag": "pre", "info": token.info.strip(), "children": [token.content.removesuffix("\n")]}]
        case "hr":
            return [{"tag": "hr", "children": []}]
        case kind if kind in _MEANT:
            return [_MEANT[kind]]
        case _:
            raise ValueError(f"no node is allowed for `{token.type}`")


def _said(nodes: Sequence[Node]) -> Iterator[str]:
    """Iterate over the texts of a tree in the order in which the plan has them."""
    for node in nodes:
        if isinstance(node, str):
            yield node
        else:
            yield node.get("number") or node.get("info") or ""
            yield from _said(node["children"])
            yield node.get("href") or ""
