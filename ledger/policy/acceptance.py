"""Entries of an offered `always` that a policy would not accept, so that no grant without effect is offered.

In the hardened profile a wildcard for a program that runs any code it is given (`python -m *`, `npx *`, `sudo *`)
lifts nothing, whoever granted it. Only a rule without wildcard that spells the whole command does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ledger.core.indexed_grants import with_more
from ledger.core.policy import Call, Evaluation, Grant, Policy, Verdict
from ledger.policy.dialects import dialect_of
from ledger.policy.shell import Access, accesses, analyse
from ledger.policy.shell.text import shorten

TRIED_COUNT: Final = 16
"""Entries, and commands of a line, that are tried with each other; a call with more of them is not tried."""


def not_accepted(policy: Policy, call: Call, evaluation: Evaluation, entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries of an offered `always` that lift none of the commands of this call, each taken alone.

    Only the hardened profile has such entries, and only for shell commands of dialects that offer other entries than
    they suggest.
    """
    if evaluation.verdict is not Verdict.ASK:
        return ()
    source = policy.source
    dialect = dialect_of(source)
    shell = dialect.shell_permission
    if dialect.language.keeps_suggestions or source.options.get("profile") == "faithful":
        return ()
    if call.permission != shell:
        return ()
    offered = list(dict.fromkeys(entries))
    line = call.input.get("command") if isinstance(call.input, Mapping) else None
    # The grammar gives some redirections to the whole pipeline: such a command with its redirection is not a part.
    spelled = [one for one in offered if isinstance(line, str) and one in line]
    commands = list(dict.fromkeys([*(part.text for part in evaluation.parts if part.inside is None), *spelled]))
    if not commands or len(commands) > TRIED_COUNT or len(offered) > TRIED_COUNT:
        return ()
    alone = [Call(shell, (text,), cwd=call.cwd, agent=call.agent) for text in commands]
    return tuple(entry for entry in offered if not any(_allows(policy, one, entry) for one in alone))


def still_asked(
    policy: Policy,
    call: Call,
    evaluation: Evaluation,
    entries: Sequence[str],
    standing: Sequence[Grant] = (),
) -> tuple[str, ...]:
    """Return the reasons why the next such call is asked about although all `entries` were granted; none if covered."""
    if not entries or evaluation.verdict is not Verdict.ASK:
        return ()
    offered = [Grant(f"offered {number}", call.permission, entry) for number, entry in enumerate(entries)]
    both = with_more(standing, offered)
    after = policy.evaluate(call, both)
    if after.verdict is not Verdict.ASK:
        return ()
    found = (*_files(call), *_uncovered(policy, call, after, both))
    return tuple(dict.fromkeys(found))[:TRIED_COUNT] or (after.reason or "no rule allows all of it",)


def _uncovered(policy: Policy, call: Call, after: Evaluation, grants: Sequence[Grant]) -> Iterator[str]:
    """Yield the parts that no grant lifts even when judged alone; nothing for a call of one part."""
    texts = list(dict.fromkeys(part.text for part in after.parts if part.verdict is Verdict.ASK and part.text))
    if len(after.parts) < 2 or len(texts) > TRIED_COUNT:
        return
    for text in texts:
        if (
            policy.evaluate(Call(call.permission, (text,), cwd=call.cwd, agent=call.agent), grants).verdict
            is not Verdict.ALLOW
        ):
            yield f"`{shorten(text)}`, which no offered pattern covers"


def _files(call: Call) -> tuple[str, ...]:
    """Return the files that the redirections of a command line read and write."""
    command = call.input.get("command") if isinstance(call.input, Mapping) else None
    if not isinstance(command, str):
        return ()
    analysis = analyse(command)
    if not analysis.redirects_only:
        return ()
    found = (
        f"{'reads' if access is Access.READ else 'writes'} `{shorten(redirect.target.raw)}`"
        for one in analysis.commands
        for redirect in one.redirects
        for access in accesses(redirect)
    )
    return tuple(dict.fromkeys(found))[:TRIED_COUNT]


def _allows(policy: Policy, call: Call, entry: str) -> bool:
    return policy.evaluate(call, (Grant("offered", call.permission, entry),)).verdict is Verdict.ALLOW
