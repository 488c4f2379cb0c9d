"""Policies that judge by recorded facts, so that an event is judged again from the log alone. Pure.

No disk is read. A fact that was not recorded is never guessed: asking for it raises NotDecidableError.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from ledger.core.errors import LedgerError
from ledger.core.policy import ConsultedFacts, Policy, PolicySource
from ledger.policy.check_questions import with_facts
from ledger.policy.consulted import UnreadFacts, has_no_file, recorded_answers
from ledger.policy.dialects import compile_policy
from ledger.policy.facts import FileKind
from ledger.policy.stored_rules import placed

POLICIES_COUNT: Final = 64
"""Compiled policies that one reader keeps; the least recently used is dropped first."""

NO_FACTS: Final = ConsultedFacts()


class NotDecidableError(LedgerError):
    """An internal signal, never raised to a caller: the log does not hold what a judgement needs."""

    code = "NOT_DECIDABLE"


class RecordedFacts:
    """The facts about files that were recorded with one evaluation, which `now` sets."""

    def __init__(self, facts: ConsultedFacts) -> None:
        self.own_folders = facts.own_folders
        self.asked = False
        """Set by every question."""
        self.now(facts)

    def now(self, facts: ConsultedFacts) -> None:
        """Answer by these facts from here on."""
        self._answers = recorded_answers(facts)
        self.asked = False

    def resolve(self, path: str) -> str:
        return UnreadFacts().resolve(path) if has_no_file(path) else self._answer("target", path) or path

    def kind(self, path: str) -> FileKind | None:
        found = None if has_no_file(path) else self._answer("kind", path)
        return None if found is None else FileKind(found)

    def _answer(self, question: str, path: str) -> str | None:
        self.asked = True
        if (question, path) not in self._answers:
            raise NotDecidableError(f"the log does not say the {question} of `{path}`", path=path, asked=question)
        return self._answers[question, path]


class _Compiled(NamedTuple):
    policy: Policy
    facts: RecordedFacts | UnreadFacts


_Key = tuple[str, str | None, str | None, tuple[str, ...], bool]


class ReplayedPolicies:
    """The policies of a log, by the facts of its events. For one thread."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[_Key, _Compiled] = OrderedDict()

    def policy(
        self,
        source: PolicySource,
        policy_digest: str,
        facts: ConsultedFacts | None,
        *,
        cwd: str | None,
        home: str | None,
    ) -> Policy:
        """Return the compiled rules of a session in a folder, judging by these facts until the next call.

        Raises PolicyError, NotDecidableError.
        """
        recorded = facts or NO_FACTS
        key = (policy_digest, cwd, home, recorded.own_folders, recorded.too_many is not None)
        known = self._compiled.get(key)
        if known is None:
            known = self._compile(source, recorded, cwd, home)
            if isinstance(known.facts, RecordedFacts) and known.facts.asked:
                # The rules themselves rest on facts, which may be others for the next event.
                return known.policy
            self._compiled[key] = known
            if len(self._compiled) > POLICIES_COUNT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        if isinstance(known.facts, RecordedFacts):
            known.facts.now(recorded)
        return known.policy

    @staticmethod
    def _compile(source: PolicySource, facts: ConsultedFacts, cwd: str | None, home: str | None) -> _Compiled:
        is_read = facts.too_many is None
        given = RecordedFacts(facts) if is_read else UnreadFacts(facts.own_folders)
        return _Compiled(with_facts(compile_policy(placed(source, cwd=cwd, home=home)), given), given)
