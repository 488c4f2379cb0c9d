"""Deciders after the rules, as OpenCode's `permission.ask` hook.

Source: `opencode.md` "Plugin Integration". They run in order, each with the request and the evaluation. A decider may
tighten any verdict and may loosen only an ask to an allow. A failure or timeout counts as ask (or deny, by
`on_failure`), never as allow. Each opinion is recorded with the request.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from ledger.core.errors import InputError
from ledger.core.events import Opinion
from ledger.core.freezes import FREEZE
from ledger.core.limits import PLUGIN_SECONDS, REASON_LENGTH_CHARS
from ledger.core.policy import Evaluation, Verdict
from ledger.core.questions import Question

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "permission_ledger.deciders"


class DeciderAnswer(msgspec.Struct, frozen=True):
    """The result of a decider; `verdict` None is no opinion."""

    verdict: Verdict | None = None
    reason: str | None = None


class Decider(Protocol):
    """A decider. `decide` may be a plain function (it then runs in a thread) or a coroutine function.

    It returns an `DeciderAnswer`, a verdict (`"allow"`, `"deny"`, `"ask"`), a pair of verdict and reason, or None.
    Optional attributes: `limit_seconds` (default 1), `on_failure` (`"ask"`, the default, or `"deny"`).
    """

    name: str

    def decide(self, session: str, question: Question, evaluation: Evaluation) -> Any: ...


def from_entry_points() -> list[Decider]:
    """Return the deciders of installed distributions, by name. Raises InputError when one cannot be loaded."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - most commands ask nothing, and start faster without

    found: list[Decider] = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        try:
            loaded: Any = point.load()
        except Exception as error:
            # A broken decider must not silently drop out of the chain: it may be one that denies.
            raise InputError(f"the decider `{point.name}` ({point.value}) cannot be loaded: {error}") from error
        decider: Any = loaded() if inspect.isclass(loaded) else loaded
        found.append(decider)
    return found


async def opinions_of(
    deciders: Sequence[Decider], session: str, question: Question, evaluation: Evaluation
) -> tuple[Opinion, ...]:
    """Call every decider in order; an error of a decider becomes its opinion."""
    return tuple([await _opinion_of(decider, session, question, evaluation) for decider in deciders])


async def _opinion_of(decider: Decider, session: str, question: Question, evaluation: Evaluation) -> Opinion:
    limit = float(getattr(decider, "limit_seconds", PLUGIN_SECONDS))
    try:
        async with asyncio.timeout(limit):
            answer = _as_answer(await _call(decider, session, question, evaluation))
    except TimeoutError:
        return _failed(decider, f"no answer within {limit:g} s")
    except Exception as error:
        # An error of a decider must not fail the request; it is asked (or denied) instead.
        log.warning("decider %s failed", decider.name, exc_info=True)
        return _failed(decider, f"{type(error).__name__}: {error}")
    return Opinion(decider.name, answer.verdict, answer.reason)


async def _call(decider: Decider, session: str, question: Question, evaluation: Evaluation) -> Any:
    if inspect.iscoroutinefunction(decider.decide):
        return await decider.decide(session, question, evaluation)
    result = await asyncio.to_thread(decider.decide, session, question, evaluation)
    return await result if inspect.isawaitable(result) else result


def _as_answer(said: Any) -> DeciderAnswer:
    if said is None:
        return DeciderAnswer()
    is_answer = isinstance(said, DeciderAnswer)
    verdict, reason = (said.verdict, said.reason) if is_answer else said if isinstance(said, tuple) else (said, None)
    verdict = None if is_answer and verdict is None else Verdict(verdict)
    return DeciderAnswer(verdict, None if reason is None else str(reason)[:REASON_LENGTH_CHARS])


def _failed(decider: Decider, why: str) -> Opinion:
    verdict = Verdict.DENY if getattr(decider, "on_failure", "ask") == "deny" else Verdict.ASK
    return Opinion(decider.name, verdict, failed=why[:REASON_LENGTH_CHARS])


def check_deciders(deciders: Iterable[Decider]) -> tuple[Decider, ...]:
    """Return the deciders as a tuple. Raises InputError for one without `name` or `decide`."""
    checked = tuple(deciders)
    for decider in checked:
        if not isinstance(getattr(decider, "name", None), str) or not callable(getattr(decider, "decide", None)):
            raise InputError(f"{decider!r} is not a decider: it needs a `name` and a method `decide`")
        if decider.name == FREEZE:
            raise InputError(f"a decider may not have the name `{FREEZE}`; choose another")
    return checked
