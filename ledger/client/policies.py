"""The compiled policies of a process, each with a cache of evaluations.

An agent runs `git status` many times, and each judging parses the line anew. An evaluation depends only on the policy,
the call, the grants and the facts about files that were looked up for it. The first three are the cache key. The facts
are looked up again each time, and so are the indexed grants, by the texts that the evaluation asked about; one different
answer invalidates the entry. So a cached evaluation always equals a new one, and carries the facts that it rests on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from ledger.client.machine import machine_facts
from ledger.core.errors import InputError
from ledger.core.limits import POLICIES_KEPT_COUNT, POLICY_BYTES
from ledger.core.policy import Call, Evaluation, Grant, Part, Policy, PolicySource, demand_rules
from ledger.core.standing import ConsultedGrants, GrantAnswers, IndexedGrants, confirms
from ledger.policy.check_questions import with_facts
from ledger.policy.consulted import FactAnswers, as_text, has_no_file, overloaded, with_answers
from ledger.policy.dialects import compile_policy, dialect_of
from ledger.policy.facts import FileFacts, FileKind, NoFacts
from ledger.policy.stored_rules import digest, placed
from ledger.session.state import SessionState

EVALUATIONS_COUNT: Final = 512
"""Evaluations that one policy keeps; the least recently used is dropped first."""

KEY_BYTES: Final = 8 * 1024
"""A call whose key, with its grants, is larger is judged every time."""

FACTS_COUNT: Final = 32
"""An evaluation that depends on more facts is not cached; looking them all up again would not be faster."""

_encode: Final = msgspec.json.Encoder().encode
_NOWHERE: Final = NoFacts()


class _Witness:
    """Facts about files for one evaluation: each is looked up once, and kept with its answer in `answers`."""

    def __init__(self, facts: FileFacts) -> None:
        self._facts = facts
        self.own_folders: tuple[str, ...] = tuple(map(as_text, getattr(facts, "own_folders", ())))
        self.answers: FactAnswers = {}

    def resolve(self, path: str) -> str:
        answer: Any = self._once("target", path)
        return str(answer)

    def kind(self, path: str) -> FileKind | None:
        answer: Any = self._once("kind", path)
        return None if answer is None else FileKind(answer)

    def _once(self, question: str, path: str) -> str | FileKind | None:
        if (question, path) not in self.answers:
            answer = self._ask(question, path)
            if has_no_file(path):
                return answer
            self.answers[question, path] = answer
        return self.answers[question, path]

    def _ask(self, question: str, path: str) -> str | FileKind | None:
        facts = _NOWHERE if has_no_file(path) else self._facts
        return facts.kind(path) if question == "kind" else as_text(facts.resolve(path))

    def confirms(self, answers: FactAnswers) -> bool:
        """Return whether every answer is still the same."""
        return all(self._ask(question, path) == answer for (question, path), answer in answers.items())


class _Known(NamedTuple):
    """`about` has the grants that the evaluation asked for, where they have an index; None where it is not to be kept."""

    evaluation: Evaluation
    answers: FactAnswers
    about: GrantAnswers | None

    @property
    def is_small(self) -> bool:
        return len(self.answers) <= FACTS_COUNT and self.about is not None


class RememberingPolicy:
    """Judges as `policy` does, with these facts if its dialect uses any.

    For one thread. The input of a call must be a JSON value: the key is made of its JSON.
    """

    def __init__(self, policy: Policy, facts: FileFacts) -> None:
        self._witness = _Witness(facts)
        self._given = policy
        self._compile()
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self.demands = demand_rules(policy.source)
        """The demands on answers, computed once."""

    def _compile(self) -> None:
        self._witness.answers = {}
        self._policy = with_facts(self._given, self._witness)
        self.source: PolicySource = self._policy.source
        self.compat: Any = getattr(self._policy, "compat", self.source.options.get("compat"))
        """The setting of which denies grants may lift (`opencode`); None in dialects without that setting."""
        self._of_rules = self._witness.answers
        """The facts on which the rules themselves rest; part of every evaluation's."""

    @property
    def own_folders(self) -> tuple[str, ...]:
        """Return the ledger's data folders, which the policy guards."""
        return self._witness.own_folders

    @cached_property
    def unread(self) -> Policy:
        """Return the same policy for which no file can be read."""
        return with_facts(self._given, NoFacts(self.own_folders))

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Return the policy's evaluation with its facts; the same object again until one of them changes."""
        key = _key_of(call, grants)
        known = self._known.get(key)
        if known is not None and self._still_holds(known, grants):
            self._known.move_to_end(key)
            return known.evaluation
        if self._of_rules and not self._witness.confirms(self._of_rules):
            self._compile()
        self._witness.answers = {**self._of_rules}
        consulted = ConsultedGrants(grants) if isinstance(grants, IndexedGrants) else None
        grants = grants if consulted is None else consulted
        judged = self._policy.evaluate(call, grants)
        evaluation = with_answers(judged, self._witness.answers, self.own_folders)
        if evaluation.facts is not None and evaluation.facts.too_many is not None:
            evaluation = overloaded(self.unread.evaluate(call, grants), evaluation.verdict, self.own_folders)
        about = {} if consulted is None else consulted.answers
        self._remember(key, _Known(evaluation, self._witness.answers, about))
        return evaluation

    def _still_holds(self, known: _Known, grants: Sequence[Grant]) -> bool:
        """Return whether the facts, and the grants that the evaluation asked for, are the same as then."""
        if known.about and not (isinstance(grants, IndexedGrants) and confirms(grants, known.about)):
            return False
        return not known.answers or self._witness.confirms(known.answers)

    def _remember(self, key: bytes, known: _Known) -> None:
        if not 0 < len(key) <= KEY_BYTES or not known.is_small:
            self._known.pop(key, None)
            return
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > EVALUATIONS_COUNT:
            self._known.popitem(last=False)

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        self._witness.answers = {}
        return self._policy.lifts(grant, permission, part)

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        self._witness.answers = {}
        return self._policy.disabled(tools)


def _key_of(call: Call, grants: Sequence[Grant]) -> bytes:
    """Return the cache key of a call and its grants; empty for a call without JSON, which is judged every time.

    Of grants with an index only those behind the others are part of it: which others count is asked anew each time.
    """
    try:
        # Most calls have no grants; to ask an abstract class costs a call.
        if type(grants) is not tuple and isinstance(grants, IndexedGrants):
            return _encode((call, grants.more, None))
        return _encode((call, grants))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return b""


class CompiledPolicies:
    """A cache of compiled policies, with this machine's files as their facts."""

    def __init__(self) -> None:
        self._policies: OrderedDict[tuple[str, str | None, str | None], Policy] = OrderedDict()

    def check(self, source: PolicySource) -> str:
        """Return the digest of a policy that can be compiled. Raises InputError, PolicyError."""
        size = len(msgspec.json.encode(source))
        if size > POLICY_BYTES:
            raise InputError(f"the rules take {size} bytes; at most {POLICY_BYTES} are accepted")
        policy_digest = digest(source)
        if (policy_digest, None, None) not in self._policies:
            _require_same(source, policy_digest)
        self.compiled(source, policy_digest)
        return policy_digest

    def known(self, state: SessionState) -> Policy | None:
        """Return the compiled rules of a session, if this process has them."""
        key = (state.policy_digest, state.cwd, state.home)
        policy = self._policies.get(key)
        if policy is not None:
            self._policies.move_to_end(key)
        return policy

    def of(self, state: SessionState, source: PolicySource) -> Policy:
        """Return the compiled rules of a session; `source` are its rules."""
        return self.compiled(source, state.policy_digest, state.cwd, state.home)

    def of_agent(self, policy: Policy, agent: str | None) -> Policy:
        """Return the policy by which the calls of an agent are judged."""
        own = dialect_of(policy.source).of_agent(policy.source, agent)
        return policy if own is policy.source else compile_policy(own)

    def compiled(
        self, source: PolicySource, policy_digest: str, cwd: str | None = None, home: str | None = None
    ) -> Policy:
        """Return the compiled policy for a folder and a home."""
        key = (policy_digest, cwd, home)
        policy = self._policies.get(key)
        if policy is None:
            compiled = compile_policy(placed(source, cwd=cwd, home=home))
            policy = self._policies[key] = RememberingPolicy(compiled, machine_facts())
            if len(self._policies) > POLICIES_KEPT_COUNT:
                self._policies.popitem(last=False)
        else:
            self._policies.move_to_end(key)
        return policy


def _require_same(source: PolicySource, policy_digest: str) -> None:
    """Raise InputError for rules that are others once they were stored, such as a number that JSON lacks."""
    try:
        stored = msgspec.json.decode(msgspec.json.encode(source), type=PolicySource)
    except msgspec.MsgspecError as error:
        raise InputError(f"the rules cannot be stored: {error}") from error
    if digest(stored) != policy_digest:
        raise InputError("the rules hold a value that JSON lacks, so they cannot be stored as they are")
