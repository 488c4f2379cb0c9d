"""Which grants a policy would not honour: nobody should be offered an `always` that the next call is asked about anyway.

In the hardened profile a wildcard for a program that runs whatever it is given (`python -m *`, `npx *`, `sudo *`) lifts
nothing, whoever granted it; only a rule without wildcard that spells the whole command does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ledger.policy.asked import permission_of, shell_tool
from ledger.policy.model import Call, Evaluation, Grant, Policy, Verdict

TRIED_COUNT: Final = 16
"""So many entries, and so many commands of a line, are tried with each other; of more nothing is said."""


def not_honoured(policy: Policy, call: Call, evaluation: Evaluation, entries: Iterable[str]) -> tuple[str, ...]:
    """The entries of an offered `always` that lift none of the commands of this call, taken by itself.

    Only the hardened profile knows such entries, and only for shell commands; Codelia's suggestions hold none of them.
    """
    if evaluation.verdict is not Verdict.ASK:
        return ()
    source = policy.source
    shell = permission_of(source.dialect, shell_tool(source.dialect))
    if source.dialect == "codelia" or source.options.get("profile") == "faithful":
        return ()
    if call.permission != shell:
        return ()
    commands = list(dict.fromkeys(part.text for part in evaluation.parts if part.inside is None))
    offered = list(dict.fromkeys(entries))
    if not commands or len(commands) > TRIED_COUNT or len(offered) > TRIED_COUNT:
        return ()
    alone = [Call(shell, (text,), cwd=call.cwd) for text in commands]
    return tuple(entry for entry in offered if not any(_allows(policy, one, entry) for one in alone))


def _allows(policy: Policy, call: Call, entry: str) -> bool:
    return policy.evaluate(call, (Grant("offered", call.permission, entry),)).verdict is Verdict.ALLOW
