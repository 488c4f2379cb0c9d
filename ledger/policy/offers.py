"""Offers for a call: grants to remember, each tried, and a rule to write. Pure.

Nothing here decides. An entry is the content of a grant in the dialect: from the call alone to a family of calls. A choice
whose entries lift nothing of the call is left out. Families of commands that delete, or act with other rights, are never
offered, and no advice lifts a deny.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from ledger.core.addresses import split_address
from ledger.core.limits import PATTERN_LENGTH_BYTES
from ledger.core.policy import (
    Call,
    Evaluation,
    Grant,
    Layer,
    Offer,
    Policy,
    PolicySource,
    Rule,
    RuleRef,
    Verdict,
    strictest,
)
from ledger.policy.check_questions import JudgedCall
from ledger.policy.codelia.rule import granted_rule
from ledger.policy.covers import TRIED_COUNT, allows, also_allowed, named_call, named_whole, still_asked
from ledger.policy.dialect import WHOLE, Dialect, ListedRule, NamedEntry
from ledger.policy.dialects import DIALECTS, dialect_of, listed_rules
from ledger.policy.errors import PolicyError
from ledger.policy.matching import wildcards_meet
from ledger.policy.opencode.requests import prefix
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.facts import command_dangers
from ledger.policy.shell.forms.nodes import NormalForm, OperandKind
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.names import lookups
from ledger.policy.shell.tables import INTERPRETERS, OPAQUE, SHELLS

Compile = Callable[[PolicySource], Policy]
"""A function that compiles a policy with the same facts about files."""

PROBED_COUNT: Final = 200
"""Configured rules, at most, whose example calls are judged again before a rule is suggested."""

PAIRS_COUNT: Final = 64
"""Suggested entries times commands that are tried with each other, at most; beyond it nothing wide is remembered."""

_ONCE: Final = "a person may answer `once`"
_EVERY: Final = {
    "edit": "every file edit",
    "read": "every file read",
    "shell": "every command",
    "fetch": "every web page",
    "search": "every web search",
    "task": "every sub-agent",
}
_FILES: Final = ("edit", "read")
_NEVER: Final = frozenset({"deletes", "privileges", "unread"})
"""Dangers of a command for which no family is offered."""

_WIDE: Final = frozenset({"runs-downloaded", "secrets"})
_RUNNING: Final = (INTERPRETERS, OPAQUE, SHELLS)


@cache
def _kinds() -> dict[str, str]:
    """Return the kinds of the built-in tools of all dialects, by tool name."""
    return {name: kind for dialect in DIALECTS.values() for name, kind in dialect.language.tool_kinds.items()}


def offers(
    policy: Policy, call: Call, evaluation: Evaluation, given: Iterable[str] = (), standing: Sequence[Grant] = ()
) -> tuple[Offer, ...]:
    """Return the choices for a call with the verdict ask, the narrowest first; nothing for any other call.

    A call of more than `TRIED_COUNT` parts has none: trying them all would cost more than judging the call.
    `given` are entries suggested by the caller; they come last. `standing` are the grants in force.
    """
    if evaluation.verdict is not Verdict.ASK or len(evaluation.parts) > TRIED_COUNT:
        return ()
    dialect = dialect_of(policy.source)
    is_shell = call.permission == dialect.shell_permission
    found = [*(_of_commands(policy, call, evaluation) if is_shell else _of_tool(policy, call, evaluation))]
    suggested = tuple(given)
    if not is_shell:
        found += _suggested(call.permission, suggested)
    elif _is_glued(found, suggested):
        found += [Offer(suggested, "kind")] if dialect.language.offers_glued else []
    elif not _is_forbidden(policy, call, evaluation, suggested):
        found += _suggested(call.permission, suggested, is_wide=any(map(_is_open, suggested)))
    return tuple(_worth(policy, call, evaluation, found, standing))


def narrowed(policy: Policy, call: Call, evaluation: Evaluation, entries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries that an `always` of the hardened profile grants: the call alone instead of a forbidden family.

    Entries of Codelia's own confirm request are kept, because the request shows its rules word for word.
    """
    dialect = dialect_of(policy.source)
    is_shell = call.permission == dialect.shell_permission
    if not is_shell or dialect.language.keeps_suggestions or policy.source.options.get("profile") == "faithful":
        return entries
    if evaluation.verdict is not Verdict.ASK or not _is_forbidden(policy, call, evaluation, entries):
        return entries
    return next((one.entries for one in offers(policy, call, evaluation) if one.reach == "exact"), ())


def _worth(
    policy: Policy, call: Call, evaluation: Evaluation, choices: Iterable[Offer], standing: Sequence[Grant]
) -> Iterator[Offer]:
    """Yield the choices that lift something, each once, with the parts that are still asked about."""
    seen: set[frozenset[str]] = set()
    covered = False
    for one in choices:
        key = frozenset(one.entries)
        if not key or key in seen or len(key) > TRIED_COUNT or any(map(_is_too_long, key)):
            continue
        seen.add(key)
        left = still_asked(policy, call, evaluation, one.entries, standing)
        if left and covered:
            continue
        covered = covered or not left
        if not left or _lifts_part(policy, call, evaluation, one.entries, standing):
            yield Offer(one.entries, one.reach, one.wide, one.name, left)


def _is_too_long(entry: str) -> bool:
    return len(entry.encode("utf-8", "surrogatepass")) > PATTERN_LENGTH_BYTES


def _lifts_part(
    policy: Policy, call: Call, before: Evaluation, entries: Sequence[str], standing: Sequence[Grant]
) -> bool:
    """Return whether entries allow one of several commands that are asked about."""
    texts = _asked_texts(before)
    return len(texts) > 1 and any(allows(policy, call, text, entries, standing) for text in texts)


# --- commands
def _of_commands(policy: Policy, call: Call, evaluation: Evaluation) -> Iterator[Offer]:
    """Yield the commands alone, then their families, then their wider families."""
    dialect = dialect_of(policy.source)
    texts = list(dict.fromkeys(_asked_texts(evaluation)))[:TRIED_COUNT]
    exact = {text: _accepted(policy, call, text, _exactly(dialect, text)) for text in texts}
    yield Offer(tuple(entry for entry in exact.values() if entry), "exact")
    wider = {text: _families(policy, call, text) for text in texts}
    for step in range(max(map(len, wider.values()), default=0)):
        taken = {text: found[min(step, len(found) - 1)] for text, found in wider.items() if found}
        kept = {text: taken[text].words if text in taken else exact[text] for text in texts}
        wide = any(one.is_wide for one in taken.values())
        entries = tuple(dict.fromkeys(entry for entry in kept.values() if entry))
        yield Offer(entries, "all" if step else "kind", wide)


def _exactly(dialect: Dialect, text: str) -> str | None:
    return None if any(one in text for one in dialect.language.wildcards) else dialect.notation.command_entry(text)


def _accepted(policy: Policy, call: Call, text: str, entry: str | None) -> str | None:
    return entry if entry and allows(policy, call, text, (entry,)) else None


def _families(policy: Policy, call: Call, text: str) -> list[Family]:
    """Return the families of one command as entries of the dialect, those that would allow it."""
    dialect = dialect_of(policy.source)
    found = [Family(dialect.notation.family_entry(f"{one.words} *"), is_wide=one.is_wide) for one in families(text)]
    return [one for one in found if allows(policy, call, text, (one.words,))]


def _asked_texts(evaluation: Evaluation) -> list[str]:
    """Return the texts of the parts that are asked about by themselves."""
    return [part.text for part in evaluation.parts if part.verdict is Verdict.ASK and part.text and part.inside is None]


def _is_open(entry: str) -> bool:
    """Return whether an entry matches more than one command."""
    return "*" in entry or entry.startswith("{") or "(" not in entry


def _is_forbidden(policy: Policy, call: Call, evaluation: Evaluation, entries: Iterable[str]) -> bool:
    """Return whether suggested entries hold the family of a command for which no family is offered, or are too many to be tried."""
    alone = [part.text for part in evaluation.parts if part.verdict is Verdict.ASK and part.text]
    without = [text for text in alone[:TRIED_COUNT] if not families(text)]
    opened = [entry for entry in entries if _is_open(entry) and entry not in without]
    if len(opened) * len(without) > PAIRS_COUNT:
        return True
    return any(_accepted(policy, call, text, entry) for entry in opened for text in without)


def _is_glued(found: Iterable[Offer], entries: Iterable[str]) -> bool:
    """Return whether entries differ from families already offered only by the blank before the `*`."""
    glued = {entry.removesuffix("*") + " *" for entry in entries if entry.endswith("*") and not entry.endswith(" *")}
    return bool(glued) and any(glued <= set(one.entries) for one in found)


# --- other tools
def _of_tool(policy: Policy, call: Call, evaluation: Evaluation) -> Iterator[Offer]:
    """Yield the call alone if a rule can name it, then its folder or host."""
    dialect = dialect_of(policy.source)
    if dialect.language.last_match:
        exact = tuple(part.text for part in evaluation.parts if part.verdict is Verdict.ASK)
        if not any(set("*?") & set(text) for text in exact):
            yield Offer(exact, "exact")
            yield Offer(tuple(dict.fromkeys(_around(call.permission, exact))), "kind")
        return
    named = [one for one in named_call(dialect, call, JudgedCall(policy, call)) if one.permission == call.permission]
    entries = tuple(one.entry for one in named)
    if all(one.because is None for one in named):
        yield Offer(entries, "exact")
    else:
        yield from _suggested(call.permission, entries)


def _around(permission: str, entries: Sequence[str]) -> Iterator[str]:
    """Yield the folder of a file, or the host of an address, with everything below it."""
    for entry in entries:
        if permission in _FILES and "/" in entry and not entry.startswith("/"):
            yield f"{entry.rpartition('/')[0]}/*"
        elif permission == "webfetch" and (address := split_address(entry)).hostname:
            yield f"{address.scheme}://{address.netloc}/*"


def _suggested(permission: str, entries: tuple[str, ...], *, is_wide: bool = False) -> Iterator[Offer]:
    """Yield suggested entries, with a label for those about a whole tool."""
    if not entries:
        return
    whole = any(_is_whole(permission, entry) for entry in entries)
    kind = _kinds().get(permission)
    name = (_EVERY.get(kind or "") or f"every use of {permission}") if whole and len(entries) == 1 else None
    wide = is_wide or (whole and kind is not None) or WHOLE in entries
    yield Offer(entries, "all" if whole or is_wide else "kind", wide, name)


def _is_whole(permission: str, entry: str) -> bool:
    rule = granted_rule(permission, entry) if entry.startswith("{") else None
    return entry in (WHOLE, permission) if rule is None else rule.whole


# --- families of commands
class Family(NamedTuple):
    """The first words of a family of commands. `is_wide`: commands of the family may do much more than this one did."""

    words: str
    is_wide: bool


def families(text: str) -> tuple[Family, ...]:
    """Return the families of one command, the narrowest first; none for a command with a danger of `_NEVER`."""
    analysis = analyse(text)
    if len(analysis.top) != 1:
        return ()
    command = analysis.top[0]
    kinds = {one.kind for one in command_dangers(text, None)}
    if kinds & _NEVER or command.assignments or not command.words:
        return ()
    form = form_of(command)
    risky = bool(kinds & _WIDE) or (form is None and _runs_code(command))
    plain = next((at for at, word in enumerate(command.words) if word.raw != word.resolved), len(command.words))
    ends = [end for end in _ends(command, form) if end <= plain]
    return tuple(
        Family(
            " ".join(word.raw for word in command.words[:end]),
            is_wide=risky or _is_wide(form, end, is_last=end == ends[-1]),
        )
        for end in ends
    )


def _runs_code(command: ShellCommand) -> bool:
    """Return whether the program, for which there is no table, runs any code it is given."""
    return any(name in table for name in lookups(command.name or "") for table in _RUNNING)


def _ends(command: ShellCommand, form: NormalForm | None) -> Iterator[int]:
    """Yield the number of words of each family: with the task that is run, then without."""
    if form is None:
        yield len(prefix([word.raw for word in command.words]))
        return
    end = max(form.path_at, default=0) + 1
    if any(one.kind is OperandKind.TASK and one.at == end for one in form.operands):
        yield end + 1
    yield end


def _is_wide(form: NormalForm | None, end: int, *, is_last: bool) -> bool:
    """Return whether a family is wide: any task of a runner, or a program that the table does not show as read-only."""
    if form is None:
        return end == 1
    runs_tasks = any(
        one.kind in (OperandKind.TASK, OperandKind.SCRIPT, OperandKind.PROGRAM, OperandKind.CODE)
        for one in form.operands
    )
    return (is_last and runs_tasks) or (end == 1 and not form.nodes[-1].is_mild)


# --- a rule to write
class Fix(msgspec.Struct, frozen=True):
    """One way to get another verdict. `config` is to be added above all other layers; None where only `text` tells it.

    `lets_through` are other commands that the advised allow also allows, as far as they were tried.
    """

    verdict: Verdict
    text: str
    config: dict[str, Any] | None = None
    lets_through: tuple[str, ...] = ()


def advise(policy: Policy, call: Call, judged: JudgedCall, compile_again: Compile) -> Iterator[Fix]:
    """Yield the ways to another verdict. Every fix with a configuration was tried and leads to its verdict."""
    if judged.verdict is Verdict.DENY:
        yield Fix(Verdict.ASK, f"{_denied(judged)}; no rule is suggested that would lift a deny")
        return
    adviser = _Adviser(policy, call, judged, compile_again)
    if judged.verdict is Verdict.ASK:
        yield adviser.allowing()
    yield from adviser.denying()


def _denied(judged: JudgedCall) -> str:
    if not judged.rules:
        return f"it is denied because {judged.reason}" if judged.reason else "it is denied"
    return f"it is denied by {' and '.join(map(placed, judged.rules))}"


def placed(rule: RuleRef) -> str:
    """Return a rule with its file and line, or its layer, as far as they are known."""
    where = (
        f"{rule.file}:{rule.line}" if rule.file and rule.line else rule.file or (rule.layer and f"layer {rule.layer}")
    )
    return f"`{rule.text}` ({where})" if where else f"`{rule.text}`"


class _Tried(NamedTuple):
    """The verdict with further entries: None if they cannot be written (`policy` None) or loosen another verdict."""

    verdict: Verdict | None
    config: dict[str, Any]
    policy: Policy | None


class _Adviser:
    def __init__(self, policy: Policy, call: Call, judged: JudgedCall, compile_again: Compile) -> None:
        self.policy, self.source, self.call, self.judged = policy, policy.source, call, judged
        self.dialect = dialect_of(policy.source)
        self.compile_again = compile_again
        self.rules = listed_rules(policy)
        self.own = {(part.text,) for found in judged.all for part in found.parts} | {call.patterns}
        alone = (Call(call.permission, texts) for texts in self.own if texts)
        probes = (*_probes(self.dialect, self.rules), *alone)
        self.probes = [(one, JudgedCall(policy, one).verdict) for one in probes]

    # --- to allow
    def allowing(self) -> Fix:
        named = named_call(self.dialect, self.call, self.judged)
        tried = self._tried(named, Verdict.ALLOW)
        wider = next((one.because for one in named if one.because), None)
        if wider is not None:
            return self._kind() or self._refusal(wider if tried.verdict is Verdict.ALLOW else self._why_not(tried))
        if tried.verdict is Verdict.ALLOW:
            return self._allow(f"to allow it, add{self._below()}", tried)
        return self._last(named) or self._refusal(self._why_not(tried))

    def _allow(self, text: str, tried: _Tried) -> Fix:
        more = () if tried.policy is None else also_allowed(self.policy, tried.policy, self.call)
        return Fix(Verdict.ALLOW, text, tried.config, more)

    def _kind(self) -> Fix | None:
        """Return a fix for the family of a command that no rule names alone; None if it loosens a deny or an ask."""
        if self.judged.first or self.call.permission != self.dialect.language.shell:
            return None
        kinds = [one for one in offers(self.policy, self.call, self.judged.own) if one.reach == "kind" and not one.wide]
        named = [
            NamedEntry(self.call.permission, entry) for one in kinds[:1] if not one.still_asked for entry in one.entries
        ]
        if not named or (self.dialect.language.last_match and any(self._meets(one.entry) for one in named)):
            return None
        tried = self._tried(named, Verdict.ALLOW)
        if tried.verdict is not Verdict.ALLOW:
            return None
        return self._allow(f"to allow it and others of its kind, add{self._below()}", tried)

    def _meets(self, entry: str) -> bool:
        """Return whether a later allow might lift a rule that restricts commands."""
        return any(
            rule.action is not Verdict.ALLOW
            and rule.pattern != WHOLE
            and rule.permission in (self.call.permission, WHOLE)
            and wildcards_meet(entry, rule.pattern)
            for rule in self.rules
        )

    def _below(self) -> str:
        """Return the position of the new rule in a file whose order decides."""
        rules = self.judged.rules
        if not self.dialect.language.last_match or not rules or self.source.options.get("order") == "key-length":
            return ""
        own = {self.call.permission, *(call.permission for call, _ in self.judged.first)}
        above = [
            rule for rule in rules if not self.dialect.language.sorts_permissions or rule.text.split(" ")[0] in own
        ]
        return f" below {placed(above[-1])}" if above else ""

    def _last(self, named: Sequence[NamedEntry]) -> Fix | None:
        """Return a fix that writes the same rules behind all others.

        Needed because a known key of a file keeps its position, and the section of an agent is read later.
        """
        if not self.dialect.language.last_match:
            return None
        written = {(rule.permission, rule.pattern) for rule in self.rules if rule.action is Verdict.DENY}
        rules = tuple(Rule(one.permission, one.entry, Verdict.ALLOW) for one in named)
        policy = self._with(Layer("suggested", rules=rules))
        if policy is None or any((one.permission, one.pattern) in written for one in rules):
            return None
        if not self._loosens_nothing(policy) or JudgedCall(policy, self.call).verdict is not Verdict.ALLOW:
            return None
        texts = " and ".join(f'`{json.dumps(one.entry)}: "allow"` under `{one.permission}`' for one in named)
        where = placed(self.judged.rules[-1]) if self.judged.rules else "all other rules"
        return Fix(Verdict.ALLOW, f"to allow it, write {texts} below {where}, and nowhere above: the last match wins")

    def _why_not(self, tried: _Tried) -> str:
        """Return the obstacle that remains with the narrowest rules, or their side effect."""
        after = self.judged if tried.policy is None else JudgedCall(tried.policy, self.call)
        if after.rules:
            return f"{placed(after.rules[0])} comes before it"
        return after.reason or self.judged.reason or "no rule for exactly this call is honoured"

    def _refusal(self, because: str) -> Fix:
        return Fix(Verdict.ALLOW, f"no rule allows it, because {because}; {_ONCE}")

    # --- to deny
    def denying(self) -> Iterator[Fix]:
        named = named_whole(self.dialect, self.call, self.judged)
        tried = self._tried(named, Verdict.DENY)
        if tried.verdict is Verdict.DENY:
            wider = next((one.because for one in named if one.because), None)
            yield Fix(Verdict.DENY, "to deny it, add" if wider is None else f"to deny it ({wider}), add", tried.config)

    # --- both
    def _tried(self, named: Sequence[NamedEntry], action: Verdict) -> _Tried:
        entries = [(one.permission, one.entry) for one in named]
        config = self.dialect.notation.config(entries, action, self.source.layers)
        policy = self._with(Layer(self.dialect.language.suggested_layer, config=config))
        if policy is None or not named or not self._loosens_nothing(policy):
            return _Tried(None, config, policy)
        return _Tried(JudgedCall(policy, self.call).verdict, config, policy)

    def _with(self, layer: Layer) -> Policy | None:
        try:
            return self.compile_again(msgspec.structs.replace(self.source, layers=(*self.source.layers, layer)))
        except PolicyError:
            return None

    def _loosens_nothing(self, policy: Policy) -> bool:
        """Return whether the example calls of all configured rules are judged at least as strictly as before.

        The call's own parts are excepted unless one is denied by itself: BRUTUS asks about a line before it reaches a
        later part that it denies.
        """
        return all(
            strictest((before, after)) is after
            for probe, before in self.probes
            if before is Verdict.DENY or probe.patterns not in self.own
            for after in (JudgedCall(policy, probe).verdict,)
        )


def _probes(dialect: Dialect, rules: Sequence[ListedRule]) -> Iterator[Call]:
    for rule in rules[:PROBED_COUNT]:
        name = dialect.language.shell if rule.permission == "*" else rule.permission.replace("*", "x").replace("?", "x")
        plain = rule.pattern.removesuffix(":*").replace("*", "x").replace("?", "x")
        yield from (Call(name, (text,)) for text in (plain, f"{plain} x"))
