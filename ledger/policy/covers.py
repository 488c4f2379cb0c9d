"""Answers to "which rule or grant covers this": one rule another, an entry a call, an offered entry a given one. Pure.

Everything rests on `allows`: an entry covers a text if the policy allows that text alone with a grant of the entry. What
patterns alone must show is conservative: where they do not show it, one rule does not cover the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Grant, Layer, Policy, PolicySource, RuleRef, Verdict
from ledger.core.standing import with_more
from ledger.policy.check_questions import JudgedCall
from ledger.policy.dialect import WHOLE, Dialect, ListedRule, NamedEntry, without_wildcard
from ledger.policy.dialects import compile_policy, dialect_of, listed_rules
from ledger.policy.errors import PolicyError
from ledger.policy.inputs import command_of
from ledger.policy.matching import wildcard_covers
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.forms.nodes import Effect
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import Access, ShellCommand, accesses
from ledger.policy.shell.words import shorten

TRIED_COUNT: Final = 16
"""Entries, and commands of a line, that are tried with each other; a call with more of them is not tried."""

SIMILAR_COUNT: Final = 64
"""Similar commands, at most, that are tried with a rule."""

ASKED_COUNT: Final = 24
"""Commands, at most, by which one given entry is tried."""

EXAMPLES_COUNT: Final = 5
"""Commands, at most, that are named as also allowed."""

_UNSURE: Final = ("\n", "\r", "\\", ":*")
"""Texts that the dialects read differently: a line end, another separator, the trailing wildcard of other dialects."""

_SHELLS: Final = ("bash", "Bash", "shell")
_OTHER: Final = "other"
_OUTSIDE: Final = "/etc/other"
_TELLING: Final = (Effect.PLAIN, Effect.EDITS, Effect.OUTPUT, Effect.WRITE, Effect.CODE, Effect.ASKS)
_NOT_ALL: Final = "no rule allows all of it"


def allows(policy: Policy, call: Call, text: str, entries: Iterable[str], standing: Sequence[Grant] = ()) -> bool:
    """Return whether one text of a call, taken alone, is allowed with grants of these entries and the standing ones."""
    return with_granted(policy, call_of_text(call, text), entries, standing).verdict is Verdict.ALLOW


def with_granted(policy: Policy, call: Call, entries: Iterable[str], standing: Sequence[Grant] = ()) -> Evaluation:
    """Return the evaluation of a call if grants of these entries stood beside the standing ones."""
    return policy.evaluate(call, with_more(standing, _granted(call, entries)))


def call_of_text(call: Call, text: str) -> Call:
    return Call(call.permission, (text,), cwd=call.cwd, agent=call.agent)


def _granted(call: Call, entries: Iterable[str]) -> tuple[Grant, ...]:
    return tuple(Grant(f"offered {number}", call.permission, entry) for number, entry in enumerate(entries))


# --- a rule covers a rule
def covers(dialect: Dialect, wide: ListedRule, narrow: ListedRule) -> bool:
    """Return whether `wide` matches everything that `narrow` matches."""
    if not dialect.notation.names(wide, narrow):
        return False
    if wide.pattern in (WHOLE, narrow.pattern):
        return True
    if dialect.language.last_match:
        return wildcard_covers(wide.pattern, narrow.pattern)
    if wide.permission not in _SHELLS or dialect.notation.joins_conditions(narrow.pattern):
        return False
    return wildcard_covers(dialect.notation.as_wildcard(wide), dialect.notation.as_wildcard(narrow))


# --- an entry covers a call
def named_call(dialect: Dialect, call: Call, judged: JudgedCall) -> tuple[NamedEntry, ...]:
    """Return the narrowest entries for all parts of a call that are not allowed, and for the calls it depends on."""
    found = [
        dialect.notation.named_pattern(one.permission, text)
        for one, evaluation in judged.first
        if evaluation.verdict is not Verdict.ALLOW
        for text in one.patterns
    ]
    if judged.own.verdict is not Verdict.ALLOW:
        parts = [part for part in judged.own.parts if part.inside is None and part.verdict is not Verdict.ALLOW]
        found += _named_texts(dialect, call, [part.text for part in parts])
    return tuple(dict.fromkeys(found))


def named_whole(dialect: Dialect, call: Call, judged: JudgedCall) -> tuple[NamedEntry, ...]:
    """Return the narrowest entries for a call as a whole: its command line, or its other subjects."""
    line = command_of(call.input)
    if call.permission == dialect.language.shell and line is not None:
        return tuple(_named_texts(dialect, call, [line.strip()]))
    return tuple(dict.fromkeys(_named_texts(dialect, call, [part.text for part in judged.own.parts])))


def _named_texts(dialect: Dialect, call: Call, texts: Sequence[str]) -> Iterator[NamedEntry]:
    if call.permission != dialect.language.shell:
        yield from dialect.notation.named(call, texts)
        return
    for text in texts:
        yield without_wildcard(call.permission, dialect.notation.command_entry(text), text, dialect.language.wildcards)


def not_accepted(policy: Policy, call: Call, evaluation: Evaluation, entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries of an offered `always` that lift none of the commands of this call, each taken alone.

    Only the hardened profile has such entries, and only for shell commands of dialects that offer other entries than
    they suggest: a wildcard for a program that runs any code it is given (`python -m *`, `npx *`, `sudo *`).
    """
    dialect = dialect_of(policy.source)
    is_tried = evaluation.verdict is Verdict.ASK and call.permission == dialect.shell_permission
    if not is_tried or dialect.language.keeps_suggestions or policy.source.options.get("profile") == "faithful":
        return ()
    offered, line = list(dict.fromkeys(entries)), command_of(call.input)
    # The grammar gives some redirections to the whole pipeline: such a command with its redirection is not a part.
    spelled = [one for one in offered if line is not None and one in line]
    commands = list(dict.fromkeys([*(part.text for part in evaluation.parts if part.inside is None), *spelled]))
    if not commands or len(commands) > TRIED_COUNT or len(offered) > TRIED_COUNT:
        return ()
    return tuple(entry for entry in offered if not any(allows(policy, call, text, (entry,)) for text in commands))


def still_asked(
    policy: Policy, call: Call, evaluation: Evaluation, entries: Sequence[str], standing: Sequence[Grant] = ()
) -> tuple[str, ...]:
    """Return the reasons why the next such call is asked about although all `entries` were granted; none if covered."""
    if not entries or evaluation.verdict is not Verdict.ASK:
        return ()
    after = with_granted(policy, call, entries, standing)
    if after.verdict is not Verdict.ASK:
        return ()
    texts = list(dict.fromkeys(part.text for part in after.parts if part.verdict is Verdict.ASK and part.text))
    # A call of one part has no part that could be told from the whole.
    tried = texts if len(after.parts) > 1 and len(texts) <= TRIED_COUNT else ()
    lacking = [text for text in tried if not allows(policy, call, text, entries, standing)]
    found = [*_redirections(call), *(f"`{shorten(text)}`, which no offered pattern covers" for text in lacking)]
    return tuple(dict.fromkeys(found))[:TRIED_COUNT] or (after.reason or _NOT_ALL,)


def _redirections(call: Call) -> list[str]:
    """Return the files that the redirections of a command line read and write."""
    line = command_of(call.input)
    analysis = None if line is None else analyse(line)
    if analysis is None or not analysis.redirects_only:
        return []
    found = (
        f"{'reads' if access is Access.READ else 'writes'} `{shorten(redirect.target.raw)}`"
        for one in analysis.commands
        for redirect in one.redirects
        for access in accesses(redirect)
    )
    return list(dict.fromkeys(found))[:TRIED_COUNT]


# --- an offered entry covers one that a person gives
def within(dialect: Dialect, offered: Sequence[str], entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries that allow nothing beyond the offered ones, in their order.

    Only the dialects whose grants are wildcards over texts (`opencode`, `brutus`) can show it by the pattern; in every
    other dialect an entry must be one of the offered ones.
    """
    wide = [_any(one) for one in offered if not _is_unsure(one)] if dialect.language.last_match else []
    return tuple(
        entry
        for entry in entries
        if entry in offered or (not _is_unsure(entry) and any(covers(dialect, one, _any(entry)) for one in wide))
    )


def _any(pattern: str) -> ListedRule:
    return ListedRule("any", pattern, Verdict.ALLOW, RuleRef(pattern))


def _is_unsure(pattern: str) -> bool:
    """Return whether the dialects read a pattern differently, so that nothing is proven by it."""
    return any(text in pattern for text in _UNSURE)


def wider_entries(policy: Policy, call: Call, offered: Sequence[str], entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries that are not proven to allow nothing beyond the offered ones, in their order.

    The dialect's own matching is the proof: an offered entry must match everything that the given one matches. Commands
    like the call are then judged with either; one that only the given entry allows shows that it is wider.
    """
    return tuple(
        entry
        for entry in entries
        if entry not in offered
        and (not _is_covered(policy.source, call.permission, offered, entry) or _adds(policy, call, offered, entry))
    )


def _is_covered(source: PolicySource, permission: str, offered: Sequence[str], entry: str) -> bool:
    """Return whether one offered entry matches everything that an entry matches, as far as the dialect can show it."""
    dialect = dialect_of(source)
    if dialect.language.last_match:
        return bool(within(dialect, offered, (entry,)))
    if _is_unsure(entry.replace(":*", "")):
        return False
    narrow = _listed(dialect, source, permission, entry)
    wide = [one for each in offered for one in _listed(dialect, source, permission, each)]
    return bool(narrow) and all(any(covers(dialect, one, each) for one in wide) for each in narrow)


def _listed(dialect: Dialect, source: PolicySource, permission: str, entry: str) -> tuple[ListedRule, ...]:
    """Return the rules that an entry stands for; none for one that is no rule of the dialect."""
    try:
        layer = Layer("given", config=dialect.notation.config([(permission, entry)], Verdict.ALLOW))
        return listed_rules(compile_policy(PolicySource(source.dialect, (layer,), {})))
    except (PolicyError, ValueError):
        return ()


def _adds(policy: Policy, call: Call, offered: Sequence[str], entry: str) -> bool:
    """Return whether a text like those of the call is allowed by an entry, and by none of the offered ones."""
    line = command_of(call.input)
    lines = [line] if line is not None else call.patterns
    is_shell = call.permission == dialect_of(policy.source).shell_permission
    similar = (one for each in lines for one in similar_lines(each)) if is_shell else ()
    # What the entry names with its wildcards filled, then commands like that of the call.
    tried = dict.fromkeys((entry.replace("*", _OTHER), *call.patterns, *similar))
    return any(
        allows(policy, call, text, (entry,)) and not allows(policy, call, text, offered)
        for text in islice(tried, ASKED_COUNT)
    )


def uncovered(
    policy: Policy, call: Call, offered: Sequence[str], entries: Sequence[str], standing: Sequence[Grant]
) -> str | None:
    """Return the reason why granted entries do not cover a call as far as the offered ones would; None if they do.

    A call that the rules allow or deny without them is covered by any.
    """
    if policy.evaluate(call, standing).verdict is not Verdict.ASK:
        return None
    after = with_granted(policy, call, entries, standing)
    if after.verdict is not Verdict.ASK:
        return None
    lifted = _lifted(call, entries, after)
    if lifted and lifted >= _lifted(call, offered, with_granted(policy, call, offered, standing)):
        return None
    return after.reason or _NOT_ALL


def _lifted(call: Call, entries: Sequence[str], after: Evaluation) -> frozenset[str]:
    """Return the texts of the parts of a call that granted entries lift."""
    ids = {grant.grant_id for grant in _granted(call, entries)}
    return frozenset(
        part.text for part in after.parts if part.verdict is Verdict.ALLOW and ids.intersection(part.grants)
    )


# --- a rule covers other commands too
def also_allowed(before: Policy, after: Policy, call: Call) -> tuple[str, ...]:
    """Return some of the commands similar to those of a call that only the second policy allows."""
    line = command_of(call.input)
    if line is None:
        return ()

    def is_allowed(policy: Policy, text: str) -> bool:
        other = replace(call, patterns=(), input={**call.input, "command": text})
        return JudgedCall(policy, other).verdict is Verdict.ALLOW

    tried = islice(dict.fromkeys(similar_lines(line)), SIMILAR_COUNT)
    return tuple(
        islice((one for one in tried if is_allowed(after, one) and not is_allowed(before, one)), EXAMPLES_COUNT)
    )


def similar_lines(line: str) -> Iterator[str]:
    """Yield commands that differ from one of the line in an operand, an option, or added words."""
    for command in analyse(line).top:
        if command.words:
            yield from (one for one in _variants(command) if one != line)


def _variants(command: ShellCommand) -> Iterator[str]:
    words = [word.raw for word in command.words]
    form = form_of(command)
    places = [one.at for one in form.operands] if form is not None else [len(words) - 1] if len(words) > 1 else []
    for at in places:
        yield " ".join([*words[:at], _OTHER, *words[at + 1 :]])
        yield " ".join([*words[:at], _OUTSIDE, *words[at + 1 :]])
    yield f"{command.text} {_OTHER}"
    if places:
        yield " ".join(words[: min(places)])
    known = [] if form is None else form.nodes[-1].options.values()
    for effect in _TELLING:
        options = dict.fromkeys(one.name for one in known if one.effect is effect)
        yield from (f"{command.text} {name}" for name in islice(options, 2))
    yield f"{command.text} --{_OTHER}"
    yield f"{command.text} > {_OTHER}"
    yield f"sudo {command.text}"
