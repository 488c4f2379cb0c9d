"""The request as a page displays it, read from the page itself: texts as the agent wrote them, places and clipping."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from playwright.async_api import Locator

IMPLIED: Final = {"command", "plan", "description", "questions", "question", "options", "label"}
"""Names implied by the layout: a command, a plan, a remark in quotation marks, a question with its choices."""

TEXTS: Final = """card => {
  const original = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.classList?.contains("odd")) return String.fromCodePoint(parseInt(node.title.slice(2), 16));
    return [...node.childNodes].map(original).join("");
  };
  const isShown = (node) => {
    const [box, edge] = [node.getBoundingClientRect(), card.getBoundingClientRect()];
    const style = getComputedStyle(node);
    return box.width > 0 && box.height > 0 && box.left >= edge.left - 1 && box.right <= edge.right + 1
      && style.visibility === "visible" && style.opacity === "1" && parseFloat(style.fontSize) >= 9;
  };
  const found = [];
  for (const node of card.querySelectorAll("pre, code, dt, .prose, .said, .what-label, .title span, legend, label strong, label small, .named")) {
    if (isShown(node)) found.push(original(node));
  }
  for (const diff of card.querySelectorAll(".diff")) {
    const lines = [...diff.querySelectorAll(".line")];
    const side = (kind) => lines.filter((line) => !line.classList.contains(kind)).map((line) => original(line.querySelector(".text"))).join("\\n");
    if (isShown(diff)) found.push(side("came"), side("gone"), lines.map((line) => original(line.querySelector(".text"))).join("\\n"));
  }
  return found;
}"""


async def texts_on(card: Locator) -> list[str]:
    """Return what can be read on a card as it is now."""
    found: list[str] = await card.evaluate(TEXTS)
    return found


def missing(given: Any, shown: list[str]) -> list[str]:
    """Return the names and values of an input that are in none of these texts."""
    all_of_it = "\0".join(shown)
    return [
        one
        for one in leaves(given)
        if one not in IMPLIED and one not in all_of_it and json.dumps(one, ensure_ascii=False)[1:-1] not in all_of_it
    ]


def leaves(given: Any) -> Iterator[str]:
    """Return every name and every value, at any depth."""
    if isinstance(given, dict):
        for name, value in given.items():
            yield name
            yield from leaves(value)
    elif isinstance(given, list):
        for value in given:
            yield from leaves(value)
    else:
        yield given if isinstance(given, str) else json.dumps(given)
