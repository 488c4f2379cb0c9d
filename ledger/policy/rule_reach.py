"""Other commands that a rule allows: variants of a command, judged with the rule and without it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from ledger.core.policy import Call, Policy, Verdict
from ledger.policy.check_questions import JudgedCall
from ledger.policy.shell import ShellCommand, analyse
from ledger.policy.shell.forms import Effect, form_of

EXAMPLES_COUNT: Final = 5
"""Commands, at most, that are named."""

TRIED_COUNT: Final = 64
"""Commands, at most, that are tried."""

_OTHER: Final = "other"
_OUTSIDE: Final = "/etc/other"
_TELLING: Final = (Effect.PLAIN, Effect.EDITS, Effect.OUTPUT, Effect.WRITE, Effect.CODE, Effect.ASKS)


def also_allowed(before: Policy, after: Policy, call: Call) -> tuple[str, ...]:
    """Return some of the commands similar to those of a call that only the second policy allows."""
    line = call.input.get("command") if isinstance(call.input, Mapping) else None
    if not isinstance(line, str):
        return ()
    tried = islice(dict.fromkeys(similar_lines(line)), TRIED_COUNT)
    found = (one for one in tried if _allows(after, call, one) and not _allows(before, call, one))
    return tuple(islice(found, EXAMPLES_COUNT))


def _allows(policy: Policy, call: Call, line: str) -> bool:
    assert isinstance(call.input, Mapping)
    return (
        JudgedCall(policy, replace(call, patterns=(), input={**call.input, "command": line})).verdict is Verdict.ALLOW
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
    node = form.nodes[-1] if form is not None else None
    for effect in _TELLING if node is not None else ():
        options = {one.name: one for one in node.options.values() if one.effect is effect} if node is not None else {}
        yield from (f"{command.text} {name}" for name in islice(options, 2))
    yield f"{command.text} --{_OTHER}"
    yield f"{command.text} > {_OTHER}"
    yield f"sudo {command.text}"
