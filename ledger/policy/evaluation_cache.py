"""A policy with a cache of evaluations: an agent runs `git status` many times, and each judging parses the line anew.

An evaluation depends only on the policy, the call, the grants and the facts about files that were looked up for it.
The first three are the cache key. The facts are looked up again each time, and one different fact invalidates the
entry. So a cached evaluation always equals a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ledger.core.policy import Call, Evaluation, Grant, Part, Policy, PolicySource, demand_rules
from ledger.policy.check_questions import with_facts
from ledger.policy.facts import FileFacts, FileKind

EVALUATIONS_COUNT: Final = 512
"""Evaluations that one policy keeps; the least recently used is dropped first."""

KEY_BYTES: Final = 8 * 1024
"""A call whose key, with its grants, is larger is judged every time."""

FACTS_COUNT: Final = 32
"""An evaluation that depends on more facts is not cached; looking them all up again would not be faster."""

_encode: Final = msgspec.json.Encoder().encode

_Asked = dict[tuple[str, str], str | FileKind | None]


class _Witness:
    """Facts about files for one evaluation: each is looked up once, and kept with its answer in `asked`."""

    def __init__(self, facts: FileFacts) -> None:
        self._facts = facts
        self.own_folders = getattr(facts, "own_folders", ())
        self.asked: _Asked = {}

    def resolve(self, path: str) -> str:
        answer: Any = self._once("resolve", path)
        return str(answer)

    def kind(self, path: str) -> FileKind | None:
        answer: Any = self._once("kind", path)
        return None if answer is None else FileKind(answer)

    def _once(self, question: str, path: str) -> str | FileKind | None:
        if (question, path) not in self.asked:
            self.asked[question, path] = self._ask(question, path)
        return self.asked[question, path]

    def _ask(self, question: str, path: str) -> str | FileKind | None:
        return self._facts.kind(path) if question == "kind" else self._facts.resolve(path)

    def confirms(self, asked: _Asked) -> bool:
        """Return whether every answer is still the same."""
        return all(self._ask(question, path) == answer for (question, path), answer in asked.items())


class _Known(NamedTuple):
    evaluation: Evaluation
    asked: _Asked


class RememberingPolicy:
    """Judges as `policy` does, with these facts if its dialect uses any.

    For one thread. The input of a call must be a JSON value: the key is made of its JSON.
    """

    def __init__(self, policy: Policy, facts: FileFacts) -> None:
        self._witness = _Witness(facts)
        self._policy = with_facts(policy, self._witness)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self.demands = demand_rules(policy.source)
        """The demands on answers, computed once."""

    @property
    def source(self) -> PolicySource:
        return self._policy.source

    @property
    def compat(self) -> Any:
        """Return the setting of which denies grants may lift (`opencode`); None in dialects without that setting."""
        return getattr(self._policy, "compat", self.source.options.get("compat"))

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Return the policy's evaluation; the same object again until one of its facts changes."""
        key = _key_of(call, grants)
        known = self._known.get(key)
        if known is not None and (not known.asked or self._witness.confirms(known.asked)):
            self._known.move_to_end(key)
            return known.evaluation
        self._witness.asked = {}
        evaluation = self._policy.evaluate(call, grants)
        self._remember(key, _Known(evaluation, self._witness.asked))
        return evaluation

    def _remember(self, key: bytes, known: _Known) -> None:
        if not 0 < len(key) <= KEY_BYTES or len(known.asked) > FACTS_COUNT:
            self._known.pop(key, None)
            return
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > EVALUATIONS_COUNT:
            self._known.popitem(last=False)

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        self._witness.asked = {}
        return self._policy.lifts(grant, permission, part)

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        self._witness.asked = {}
        return self._policy.disabled(tools)


def _key_of(call: Call, grants: Sequence[Grant]) -> bytes:
    """Return the cache key of a call and its grants; empty for a call without JSON, which is judged every time."""
    try:
        return _encode((call, grants))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return b""
