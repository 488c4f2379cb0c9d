"""The facts that an evaluation consulted, as they are recorded with it, and policies that judge again by them. Pure.

A verdict that rests on files can be judged again from the log alone, because each fact about a file stands beside it.
A call that consults more files than an event may hold is judged as if none could be read, and never more loosely than
by the files. Nothing is guessed: asking for a fact that was not recorded raises NotDecidableError.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.core.errors import LedgerError
from ledger.core.late_patterns import late_pattern
from ledger.core.policy import ConsultedFacts, ConsultedFile, Evaluation, Part, Policy, PolicySource, Verdict, strictest
from ledger.policy.check_questions import with_facts
from ledger.policy.dialects import compile_policy
from ledger.policy.facts import FileKind, NoFacts
from ledger.policy.own import LAYER
from ledger.policy.spelled import UNKNOWN_FOLDER
from ledger.policy.stored_rules import placed

FILES_COUNT: Final = 2_000
"""Facts about files of one evaluation, at most."""

FILES_BYTES: Final = 128 * 1024
"""Their size as JSON, at most."""

FactAnswers = dict[tuple[str, str], str | FileKind | None]
"""Facts by question (`target` or `kind`) and path."""

_SURROGATES: Final = late_pattern("[\ud800-\udfff]")
_encode: Final = msgspec.json.Encoder().encode


def has_no_file(path: str) -> bool:
    """Return whether no disk holds the path: it is below an unknown folder. It leads to itself, and is not recorded."""
    return path.startswith(UNKNOWN_FOLDER) and "/.." not in path


def as_text(name: str) -> str:
    """Return a name of a file as text that JSON can hold; bytes that are not UTF-8 become U+FFFD."""
    return name if name.isascii() else _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", name)


def with_answers(evaluation: Evaluation, answers: FactAnswers, own_folders: tuple[str, ...]) -> Evaluation:
    """Return the evaluation with the facts that it consulted; over the bounds, `too_many` takes their place."""
    files = _files(answers)
    folders = own_folders if touches_the_ledger(evaluation) else ()
    if files is None:
        return replace(evaluation, facts=ConsultedFacts(own_folders=folders, too_many=evaluation.verdict))
    if not files and not folders:
        return evaluation
    return replace(evaluation, facts=ConsultedFacts(files, folders))


def touches_the_ledger(evaluation: Evaluation) -> bool:
    """Return whether a call was denied because it touches the ledger's own files; these folders are then a fact."""
    return evaluation.verdict is Verdict.DENY and any(rule.layer == LAYER for rule in evaluation.rules)


def merged(evaluation: Evaluation, others: Iterable[Evaluation]) -> Evaluation:
    """Return the first evaluation with the facts of all, which together decided."""
    known = [one.facts for one in (evaluation, *others) if one.facts is not None]
    if not known or (len(known) == 1 and known[0] is evaluation.facts):
        return evaluation
    files = tuple(dict.fromkeys(file for facts in known for file in facts.files))
    folders = tuple(dict.fromkeys(folder for facts in known for folder in facts.own_folders))
    over = [facts.too_many for facts in known if facts.too_many is not None]
    if over or not _fit(files):
        return replace(evaluation, facts=ConsultedFacts((), folders, strictest((evaluation.verdict, *over))))
    return replace(evaluation, facts=ConsultedFacts(files, folders))


def overloaded(unread: Evaluation, by_all_files: Verdict, own_folders: tuple[str, ...] = ()) -> Evaluation:
    """Return the evaluation of a call that consults too many files, from the one for which no file was read.

    It is at least an ask, and at least the verdict by all files. No grant lifts it.
    """
    verdict = strictest((unread.verdict, by_all_files, Verdict.ASK))
    reason = (
        f"the call rests on more than {FILES_COUNT:,} facts about files, or on {FILES_BYTES // 1024} KiB of them, and "
        "was judged as if no file could be read; make smaller calls"
    )
    part = Part("more files than are looked at", verdict, liftable=False)
    if unread.verdict is Verdict.DENY and unread.reason is not None:
        reason = unread.reason
    message = unread.message or (f"Denied: {reason}" if verdict is Verdict.DENY else None)
    facts = ConsultedFacts(own_folders=own_folders if touches_the_ledger(unread) else (), too_many=by_all_files)
    return replace(unread, verdict=verdict, parts=(*unread.parts, part), message=message, reason=reason, facts=facts)


def recorded_answers(facts: ConsultedFacts) -> Mapping[tuple[str, str], str | None]:
    """Return the recorded facts by question and path."""
    return {(one.asked, one.path): one.found for one in facts.files}


def _files(answers: FactAnswers) -> tuple[ConsultedFile, ...] | None:
    if len(answers) > FILES_COUNT:
        return None
    files = tuple(
        [
            ConsultedFile(as_text(path), "target", None if found == path else str(found))
            if question == "target"
            else ConsultedFile(as_text(path), "kind", None if found is None else str(found))
            for (question, path), found in answers.items()
        ]
    )
    return files if _fit(files) else None


def _fit(files: tuple[ConsultedFile, ...]) -> bool:
    return len(files) <= FILES_COUNT and len(_encode(files)) <= FILES_BYTES


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
        return NoFacts().resolve(path) if has_no_file(path) else self._answer("target", path) or path

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
    facts: RecordedFacts | NoFacts


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
        given = RecordedFacts(facts) if is_read else NoFacts(facts.own_folders)
        return _Compiled(with_facts(compile_policy(placed(source, cwd=cwd, home=home)), given), given)
