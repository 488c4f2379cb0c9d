"""docs/reference/python.md names the parameters that the functions have, no more and no fewer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from ledger import Ledger, Session
from ledger.guarding import asking, guarded
from ledger.guarding.langgraph import asks_ledger
from tests.house.sources import text_of
from tests.support.rows import every

PAGE: Final = text_of("docs/reference/python.md")
WRITTEN: Final = re.findall(r"^(?:## |- )`(?:@|with )?([\w.]+)\(([^`]*)\):?`", PAGE, re.MULTILINE)
ELSEWHERE: Final[dict[str, Callable[..., Any]]] = {
    "asking": asking,
    "asks_ledger": asks_ledger,
    "guarded": guarded,
    "pending": Ledger.pending,
}
OF_THE_LEDGER: Final = (
    "Ledger.connect",
    "session",
    "attach",
    "sessions",
    "state_at",
    "uses_of",
    "pending_pages",
    "approved_pages",
)


def written(parameters: str) -> set[str]:
    return {word.partition("=")[0].strip() for word in parameters.split(",")} - {"*", "…", ""}


def function_of(name: str) -> Callable[..., Any]:
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    owner = Ledger if name in OF_THE_LEDGER else Session
    found: Callable[..., Any] = getattr(owner, name.rpartition(".")[2])
    return found


def parameters_of(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of parameters; keyword arguments of a typed dictionary by their members."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            hint = inspect.get_annotations(inspect.unwrap(function), eval_str=True)[name]
            yield from hint.__args__[0].__annotations__
        else:
            yield name


@every(("name", "parameters"), [one for one in WRITTEN if "…" not in one[1]])
def test_the_page_has_the_parameters_of_the_function(name: str, parameters: str) -> None:
    real = set(parameters_of(function_of(name))) - {"self"}
    named = {"id": "session_id"} if name in ("session", "attach") else {}
    assert {named.get(word, word) for word in written(parameters)} == real


def test_the_page_has_the_functions_that_agents_call() -> None:
    assert {"Ledger.connect", "session", "ask", "ask_tool", "wait", "reply"} <= {name for name, _ in WRITTEN}


def test_every_word_of_the_page_that_looks_like_a_method_is_one() -> None:
    rows = re.findall(r"^- ((?:`[a-z_]+`(?:, )?)+): ", PAGE, re.MULTILINE)
    words = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}
    assert len(words) > 10
    assert sorted(word for word in words if not hasattr(Ledger, word) and not hasattr(Session, word)) == []
