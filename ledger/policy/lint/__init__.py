"""Checks of well-formed rules that never decide, never allow, can be evaded, or name nothing. Pure.

Commands are tried against the policy in either profile, so that only verified problems are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from ledger.core.policy import STRICTNESS, Call, Evaluation, Layer, Policy, PolicySource, Verdict
from ledger.policy.dialect import WHOLE, Dialect, ListedRule
from ledger.policy.dialects import dialect_of, listed_rules
from ledger.policy.errors import PolicyError
from ledger.policy.lint.reading import (
    LintFinding,
    Severity,
    about,
    joined,
    lifted,
    lint_text,
    negation,
    no_rules,
    overridden,
    too_few_named,
    tool_names,
    unknown_members,
)
from ledger.policy.offers import Compile
from ledger.policy.shell.forms.nodes import OperandKind, ProgramNode, program_table

PROFILES: Final = ("faithful", "hardened")

NARROW_COUNT: Final = 4
"""Rules named in one piece of advice; if more are needed, it names the whole command family."""

_NARROWER_COUNT: Final = 200
"""Maximum narrower rules that are tried beside a wide one."""

_MEANT_COUNT: Final = 48
"""Commands tried for each rule."""

_WORDS_MAX: Final = 16
"""Maximum words of a rule whose other spellings are tried."""

_OUTSIDE: Final = "/nowhere/x"
"""A file outside every project."""

_HARDENED: Final = "hardened"
_EDITORS: Final = ("Edit", "Write", "MultiEdit")
_DONE: Final = {Verdict.ALLOW: "allowed", Verdict.ASK: "asked about", Verdict.DENY: "denied"}
_OPERAND: Final = "x"
_RUN: Final = frozenset({OperandKind.SCRIPT, OperandKind.CODE, OperandKind.PROGRAM})
_LETTERS_MIN: Final = 2


class Trial:
    """A policy that is compiled again for each profile and for single rules."""

    def __init__(self, source: PolicySource, compile_again: Compile) -> None:
        self.source, self.dialect = source, dialect_of(source)
        self.shell = self.dialect.language.shell
        self._compile = compile_again
        self._whole: dict[str, Policy] = {}

    @property
    def profile(self) -> str:
        """Return the profile of the policy."""
        profile: str = self.source.options.get("profile") or "hardened"
        return profile

    def is_command_rule(self, rule: ListedRule) -> bool:
        return rule.permission in (self.shell, "shell")

    def policy(self, profile: str) -> Policy:
        """Return the whole policy in a profile."""
        if profile not in self._whole:
            self._whole[profile] = self.besides((), profile)
        return self._whole[profile]

    def besides(self, configs: Sequence[Mapping[str, Any]], profile: str) -> Policy:
        """Return the whole policy with additional layers above all others."""
        more = [Layer(f"suggested {at}", config=one) for at, one in enumerate(configs)]
        return self._compiled((*self.source.layers, *more), {**self.source.options, "profile": profile})

    def with_rules(self, layer: Layer, profile: str) -> Policy:
        """Return a policy that consists of one layer. Raises PolicyError."""
        options = {**self.source.options, "profile": profile}
        options.pop("defaults", None)
        return self._compiled((layer,), options)

    def _compiled(self, layers: tuple[Layer, ...], options: dict[str, Any]) -> Policy:
        return self._compile(msgspec.structs.replace(self.source, layers=layers, options=options))

    def alone(self, rule: ListedRule, profile: str) -> Policy:
        """Return a policy that consists of one rule. Raises PolicyError."""
        return self.with_rules(Layer(rule.ref.layer or "rule", config=self.dialect.notation.rule_config(rule)), profile)

    def verdict(self, line: str, profile: str) -> Verdict:
        """Return the verdict of the whole policy on a command line."""
        return self.judge(self.policy(profile), line).verdict

    def judge(self, policy: Policy, line: str) -> Evaluation:
        return self.call(policy, self.shell, {"command": line})

    def call(self, policy: Policy, tool: str, value: Mapping[str, Any]) -> Evaluation:
        return policy.evaluate(Call(tool, (), tool, value))


def is_weaker(verdict: Verdict, than: Verdict) -> bool:
    return STRICTNESS[verdict] < STRICTNESS[than]


def samples(dialect: Dialect, pattern: str) -> list[str]:
    """Return harmless commands that a rule is meant for, the plainest first."""
    bare = pattern.removesuffix(":*") if dialect.language.tool_rules else pattern
    plain = bare.removesuffix("*").rstrip()
    if not plain:
        return []
    bare = plain.replace("*", "x")
    return [bare, f"{bare} x", f"{bare} --help"] if plain != pattern else [bare]


# --- allows
def blanket(trial: Trial, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find an allow of every command, or of changes to every file of the machine."""
    rule = rules[index]
    if rule.action is not Verdict.ALLOW or rule.pattern != WHOLE:
        return
    if trial.is_command_rule(rule) or (rule.permission == "*" and trial.dialect.language.last_match):
        yield from _every_command(trial, rules, rule)
    elif rule.permission in _EDITORS and _allows_outside(trial, rule):
        text = f"`{rule.ref.text}` allows to change every file of the machine, not only those of the project"
        yield about(rule, "blanket", "warning", text, "write `Edit(**)` for the files of the project")


def _every_command(trial: Trial, rules: list[ListedRule], rule: ListedRule) -> Iterator[LintFinding]:
    alone = trial.alone(rule, trial.profile)
    narrower = [one for one in rules if trial.is_command_rule(one) and one.pattern != WHOLE][:_NARROWER_COUNT]
    working = [one.ref.text for one in narrower if _still_decides(trial, alone, one)]
    idle = [one.ref.text for one in narrower if one.ref.text not in working]
    told = [f"`{rule.ref.text}` allows every command that no other rule restricts"]
    if working:
        told.append(f"beside it {joined(working)} still {'decides' if len(working) == 1 else 'decide'}")
    if idle:
        told.append(f"{joined(idle)} {'changes' if len(idle) == 1 else 'change'} nothing while it stands")
    fix = f"allow only the programs you mean, for example {written(trial.dialect, 'git *', Verdict.ALLOW).text}"
    yield about(rule, "blanket", "warning", "; ".join(told), fix)


def _still_decides(trial: Trial, alone: Policy, rule: ListedRule) -> bool:
    """Return whether the wide rule alone gives another verdict for a command of the narrower rule."""
    for line in samples(trial.dialect, rule.pattern):
        verdict = trial.verdict(line, trial.profile)
        if verdict is rule.action and trial.judge(alone, line).verdict is not verdict:
            return True
    return False


def _allows_outside(trial: Trial, rule: ListedRule) -> bool:
    policy = trial.alone(rule, trial.profile)
    return trial.call(policy, rule.permission, {"file_path": _OUTSIDE}).verdict is Verdict.ALLOW


def not_honoured(trial: Trial, rule: ListedRule) -> Iterator[LintFinding]:
    """Find an allow rule that allows none of its intended commands."""
    if rule.action is not Verdict.ALLOW or not trial.is_command_rule(rule) or rule.pattern == WHOLE:
        return
    try:
        policy = trial.alone(rule, _HARDENED)
    except PolicyError as problem:
        yield about(rule, "not-honoured", "warning", f"hardened refuses `{rule.ref.text}`: {problem}", "correct it")
        return
    found = [trial.judge(policy, sample) for sample in meant_commands(trial.dialect, rule.pattern)]
    if found and all(one.verdict is not Verdict.ALLOW for one in found):
        reason = next((one.reason for one in found if one.reason), "no command satisfies it")
        text = f"the hardened profile asks despite `{rule.ref.text}`: {reason}"
        yield about(rule, "not-honoured", "warning", text, _instead(trial, rule))


def _instead(trial: Trial, rule: ListedRule) -> str:
    """Return the advice; allowing whole commands helps only where the arguments, not the program, are dangerous."""
    found = meant_commands(trial.dialect, rule.pattern)
    entries = [(trial.shell, trial.dialect.notation.command_entry(sample)) for sample in found]
    layer = Layer(rule.ref.layer or "rule", config=trial.dialect.notation.config(entries, Verdict.ALLOW))
    exactly = trial.with_rules(layer, _HARDENED)
    if any(trial.judge(exactly, sample).verdict is Verdict.ALLOW for sample in found):
        return "allow whole commands without `*`, or leave it to a person"
    return "leave it to a person"


# --- denies
def exact_deny(trial: Trial, rule: ListedRule) -> Iterator[LintFinding]:
    """Find a restriction that covers a command but not the same command with more words: `Bash(rm)`."""
    if not _restricts_commands(trial, rule) or set(trial.dialect.language.wildcards) & set(rule.pattern):
        return
    passing = _passing(trial, rule, [f"{rule.pattern} x"])
    if passing and trial.verdict(rule.pattern, trial.profile) is rule.action:
        verb = "denies" if rule.action is Verdict.DENY else "asks about"
        text = f"`{rule.ref.text}` {verb} `{rule.pattern}` only without arguments: {_told(passing)}"
        fix = f"write {written(trial.dialect, f'{rule.pattern} *', rule.action).text}"
        yield about(rule, "exact-deny", "warning", text, fix)


def leaky_deny(trial: Trial, rule: ListedRule) -> Iterator[LintFinding]:
    """Find a restriction whose options have other spellings that it misses: `rm -rf *` and `rm -fr x`."""
    if not _restricts_commands(trial, rule):
        return
    found = siblings(trial.dialect, rule.pattern)
    if found is None:
        return
    passing = _passing(trial, rule, found.spellings)
    if not passing:
        return
    severity: Severity = "warning" if trial.profile in passing else "info"
    text = f"`{rule.ref.text}` does not cover other spellings: {_told(passing)}"
    fix = f"add {_reaching(trial, rule, found)}"
    if trial.profile in passing and "hardened" not in passing:
        fix = f"{fix}, or use the profile hardened"
    yield about(rule, "leaky-deny", severity, text, fix)


def _reaching(trial: Trial, rule: ListedRule, found: Siblings) -> str:
    """Return the narrowest rules that match all spellings even in the faithful profile."""
    narrow = [
        f"{found.command} *{one}*" if one.startswith("--") else f"{found.command} *{one} *" for one in found.names
    ]
    narrow = [pattern for pattern in narrow if not any(_holds(pattern, other) for other in narrow)]
    rules = [written(trial.dialect, pattern, rule.action) for pattern in narrow]
    if rules and len(rules) <= NARROW_COUNT:
        policy = trial.besides([one.config for one in rules], "faithful")
        if not any(is_weaker(trial.judge(policy, line).verdict, rule.action) for line in found.spellings):
            return " and ".join(one.text for one in rules)
    return written(trial.dialect, f"{found.command} *", rule.action).text


def _holds(pattern: str, other: str) -> bool:
    """Return whether `other` matches everything that `pattern` matches: `--force*` covers `--force-with-lease*`."""
    return pattern != other and other.endswith("*") and pattern.startswith(other.removesuffix("*"))


def _restricts_commands(trial: Trial, rule: ListedRule) -> bool:
    return rule.action is not Verdict.ALLOW and trial.is_command_rule(rule) and rule.pattern != WHOLE


def _passing(trial: Trial, rule: ListedRule, lines: list[str]) -> dict[str, dict[Verdict, list[str]]]:
    """Return the lines with a weaker verdict than the rule's action, by profile and verdict."""
    found: dict[str, dict[Verdict, list[str]]] = {}
    for profile in PROFILES:
        for line in lines:
            verdict = trial.verdict(line, profile)
            if is_weaker(verdict, rule.action):
                found.setdefault(profile, {}).setdefault(verdict, []).append(line)
    return found


def _told(passing: dict[str, dict[Verdict, list[str]]]) -> str:
    """Return the verdicts of each profile in words, once if all profiles agree."""
    told = {profile: _of_profile(found) for profile, found in passing.items()}
    if len(set(told.values())) == 1 and len(told) == len(PROFILES):
        return told[PROFILES[0]]
    return "; ".join(f"in profile {profile} {text}" for profile, text in told.items())


def _of_profile(found: dict[Verdict, list[str]]) -> str:
    said = [
        f"{joined(lines)} {'is' if len(lines) == 1 else 'are'} {_DONE[verdict]}" for verdict, lines in found.items()
    ]
    return " and ".join(said)


class WrittenRule(NamedTuple):
    """A rule: `text` as a person writes it, and a configuration that contains only this rule."""

    text: str
    config: dict[str, Any]


def written(dialect: Dialect, pattern: str, action: Verdict) -> WrittenRule:
    """Return a dialect's rule for the commands that a pattern matches; a trailing ` *` is optional in them."""
    entry = dialect.notation.family_entry(pattern)
    return WrittenRule(
        dialect.notation.shown_entry(entry, action), dialect.notation.config([(dialect.language.shell, entry)], action)
    )


def meant_commands(dialect: Dialect, pattern: str) -> list[str]:
    """Return commands that a rule is meant for; empty if its pattern shows none."""
    if dialect.notation.joins_conditions(pattern):
        return []
    text = dialect.notation.plain_pattern(pattern)
    wild = dialect.language.wildcards
    if not set(wild) & set(text):
        return [text]
    words = text.split()
    if not words[0].strip(wild):
        return []
    return list(dict.fromkeys(islice(map(" ".join, _spelled(words, wild)), _MEANT_COUNT)))


def _spelled(words: Sequence[str], wild: str) -> Iterator[list[str]]:
    """Yield the words with each wildcard replaced by an operand, or by a sub-command after a program's name."""
    plain = [_OPERAND if not word.strip(wild) else word.translate(dict.fromkeys(map(ord, wild))) for word in words]
    head = plain[:-1] if not words[-1].strip(wild) else plain
    node = table_of(head)
    if node is None or head[-1].startswith("-"):
        yield from ([*head, _OPERAND], head) if not head[-1].startswith("-") else ([*head, _OPERAND],)
        return
    if len(words) > 2 and not words[1].strip(wild) and (top := program_table(plain[0])) is not None:
        yield from ([plain[0], name, *plain[2:]] for name in top.commands)
    if node.operands is None or not _RUN & {node.operands.kind_at(0)}:
        yield head
    yield [*head, _OPERAND]
    yield from ([*head, name] for name in node.commands)
    yield from ([*head, name, _OPERAND] for name in node.commands)


def table_of(head: Sequence[str]) -> ProgramNode | None:
    """Return the table of a program, or of the sub-command that the words name; None if unknown."""
    node = program_table(head[0])
    for word in head[1:]:
        if node is None:
            return None
        node = node.commands.get(word, node)
    return node


class Siblings(NamedTuple):
    """Other spellings of a command.

    `command` is the text before the first option; `spellings` are whole command lines. `names` are all names of the
    single option and of options that imply it; empty if there are several options.
    """

    command: str
    names: tuple[str, ...]
    spellings: list[str]


def siblings(dialect: Dialect, pattern: str) -> Siblings | None:
    """Return other spellings of one command that a pattern matches; None for a pattern without options."""
    words = _sample(dialect, pattern)
    options = [word for word in words[1:] if _is_option(word)]
    first = next((at for at, word in enumerate(words) if _is_option(word)), 0)
    if not options or not first or len(words) > _WORDS_MAX or not words[0].strip(_OPERAND):
        return None
    own = " ".join(words)
    names = _names(words[:first], options[0]) if len(options) == 1 and not _is_cluster(options[0]) else ()
    renamed = ([name if word == options[0] else word for word in words] for name in names)
    found = (" ".join(spelling) for spelling in (*_spellings(words, first), *renamed))
    return Siblings(" ".join(words[:first]), names, [line for line in dict.fromkeys(found) if line != own])


def _names(command: Sequence[str], option: str) -> tuple[str, ...]:
    """Return every name of an option of a known program, its own first, without values."""
    node = table_of(command)
    known = node.options.get(option) if node is not None else None
    if node is None or known is None:
        return (option,)
    implied = [name for name, means in node.means.items() if known.name in means and name in node.options]
    others = [name for one in (known, *(node.options[name] for name in implied)) for name in one.names]
    return tuple(dict.fromkeys((option, *others)))


def _sample(dialect: Dialect, pattern: str) -> list[str]:
    """Return one command that the pattern matches, with an operand for each wildcard at the end of a word."""
    text = dialect.notation.plain_pattern(pattern)
    wild = dialect.language.wildcards
    words = [_OPERAND if not word.strip(wild) else word.translate(str.maketrans("", "", wild)) for word in text.split()]
    return words if words[-1:] == [_OPERAND] else [*words, _OPERAND]


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and word != "--"


def _is_cluster(word: str) -> bool:
    return not word.startswith("--") and len(word) > _LETTERS_MIN and word[1:].isalpha()


def _spellings(words: Sequence[str], first: int) -> Iterator[list[str]]:
    for at, word in enumerate(words):
        if at >= first and _is_option(word) and _is_cluster(word):
            yield [*words[:at], f"-{word[:0:-1]}", *words[at + 1 :]]
            yield [*words[:at], *(f"-{letter}" for letter in word[1:]), *words[at + 1 :]]
    options = [word for word in words[first:] if _is_option(word)]
    others = [word for word in words[first:] if not _is_option(word)]
    yield [*words[:first], *others, *options]
    if len(options) > 1:
        yield [*words[:first], *reversed(options), *others]


__all__ = ["LintFinding", "Severity", "lint_rules", "lint_text"]


def lint_rules(policy: Policy, compile_again: Compile) -> list[LintFinding]:
    """Return the problems with the rules of a compiled policy, in the order of the rules."""
    trial = Trial(policy.source, compile_again)
    rules = [rule for rule in listed_rules(policy) if rule.ref.layer != "defaults"]
    found: list[LintFinding] = []
    for index, rule in enumerate(rules):
        found += tool_names(trial.dialect, rules, index)
        found += negation(trial.dialect, rule)
        found += overridden(trial.dialect, rules, index)
        found += lifted(trial.dialect, rules, index)
        found += not_honoured(trial, rule)
        found += exact_deny(trial, rule)
        found += leaky_deny(trial, rule)
        found += blanket(trial, rules, index)
    for layer in policy.source.layers:
        found += unknown_members(trial.dialect, layer)
        found += too_few_named(layer)
    return found if rules or found else [no_rules(policy.source)]
