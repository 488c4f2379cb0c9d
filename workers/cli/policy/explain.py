"""`policy explain`: the parts of a verdict, for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ledger.client.machine import machine_facts
from ledger.core.policy import Call, Part, Policy, PolicySource, RuleRef, Verdict
from ledger.policy.check_questions import JudgedCall, judge, rule_json, with_facts
from ledger.policy.demands import demand_sentences, demands_on
from ledger.policy.dialects import compile_policy
from ledger.policy.explanation import Explanation, Near, ReadCommand
from ledger.policy.explanation import explain as explained
from ledger.policy.shell.forms.description import form_json, form_text
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput
from workers.cli.policy.calls import call_options, typed_call
from workers.cli.policy.options import Choices, policy_command
from workers.presentation.labels import DEMANDED

EXITS: Final = {Verdict.ALLOW: Exit.DONE, Verdict.ASK: Exit.PENDING, Verdict.DENY: Exit.DENIED}

_HEADLINES: Final = {
    Verdict.ALLOW: "allow: it runs without a question",
    Verdict.ASK: "ask: a person must answer first",
    Verdict.DENY: "deny: it may not run",
}


@policy_command(
    "explain",
    examples=(
        "permission-ledger policy explain 'git push --force origin main'",
        "permission-ledger policy explain --dialect claude --config .claude/settings.json 'npm test && rm -rf build'",
        """permission-ledger policy explain --dialect claude --tool Read --input '{"file_path": ".env"}' --json""",
        "permission-ledger policy explain --permission webfetch --pattern https://example.com",
    ),
)
@call_options
def explain(*, choices: Choices, as_json: bool, **typed: Any) -> int:
    """Say which parts a command or call has, which rule decided and where it stands, and what would change it.

    Without --config and --layer the rules are those that the source's own program finds here. The exit code is the
    verdict: 0 allow, 7 ask, 3 deny.
    """
    output = CommandOutput(as_json=as_json)
    call = typed_call(choices.dialect, **typed)
    policy = choices.policy(quiet=as_json)
    found = explained(policy, call, compiled_here)
    if as_json:
        output.row(
            {
                **judge(policy, call),
                "commands": [_read_json(one) for one in found.commands],
                "unknown": [msgspec.to_builtins(one) for one in found.unknown],
                "near": [_near_json(one) for one in found.near],
                "fixes": _fixes_json(found),
                **_demands_json(policy, call, found.judged),
            }
        )
    else:
        _tell(output, found, demanded_of(policy, call, found.judged))
    return EXITS[found.judged.verdict]


def compiled_here(source: PolicySource) -> Policy:
    """Return a policy that reads this machine's files."""
    return with_facts(compile_policy(source), machine_facts())


def _near_json(near: Near) -> dict[str, Any]:
    return {**rule_json(near.rule.ref), "matches": near.matches, "why": near.why}


def _read_json(read: ReadCommand) -> dict[str, Any]:
    return {"text": read.text, "form": form_json(read.form)}


def _fixes_json(found: Explanation) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(fix) for fix in found.fixes]


def demanded_of(policy: Policy, call: Call, judged: JudgedCall) -> tuple[str, ...]:
    """Return the demands on the answers to a call and to those asked before it, a sentence each; none on one that is denied."""
    if judged.verdict is Verdict.DENY:
        return ()
    found = [one for asked in (*(first for first, _ in judged.first), call) for one in demands_on(policy, asked)]
    return demand_sentences(found, "the asker")


def _demands_json(policy: Policy, call: Call, judged: JudgedCall) -> dict[str, Any]:
    demanded = demanded_of(policy, call, judged)
    return {"demanded": list(demanded)} if demanded else {}


def _tell(output: CommandOutput, found: Explanation, demanded: Iterable[str]) -> None:
    judged: JudgedCall = found.judged
    output.line(_HEADLINES[judged.verdict])
    if judged.reason:
        output.line(f"because {judged.reason}")
    if judged.verdict is Verdict.DENY and judged.message:
        output.line(f"the agent is told: {judged.message}")
    for one in demanded:
        output.line(f"{DEMANDED} of an answer: {one}")
    _parts(output, judged)
    _read(output, found.commands)
    for part in found.unknown:
        inside = "" if part.text == part.word else f" in `{part.word}`"
        output.line(f"  not known: `{part.text}`{inside}: {part.why}")
    _nearly(output, found.near)
    for fix in found.fixes:
        output.line()
        output.line(f"{fix.text}{':' if fix.config else ''}")
        if fix.config:
            output.line(f"  {json.dumps(fix.config, ensure_ascii=False)}")
        if fix.config and fix.verdict is Verdict.ALLOW and found.commands:
            output.line(f"  {_besides(fix.lets_through)}")


def _besides(lets_through: Iterable[str]) -> str:
    from ledger.session.would_run import quoted  # noqa: PLC0415 - slow to import

    told = quoted(lets_through, None)
    return f"it also lets through: {told}" if told else "it lets through none of the other calls that were tried"


def _read(output: CommandOutput, commands: tuple[ReadCommand, ...]) -> None:
    """Print the normal form of each command, and the parts that were not understood."""
    if commands:
        output.line()
        output.line("read as:")
    for one in commands:
        output.line(f"  {form_text(one.form) if one.form is not None else f'`{one.text}`, a program without a table'}")
        for unclear in one.form.unclear if one.form is not None else ():
            output.line(f"    not understood: {unclear.reason}")


def _parts(output: CommandOutput, judged: JudgedCall) -> None:
    rows = [
        (call.permission, part.verdict.value, part.text, *_decided(part))
        for call, evaluation in judged.first
        for part in evaluation.parts
    ]
    rows += [(_where(part), part.verdict.value, part.text, *_decided(part)) for part in judged.own.parts]
    if rows:
        output.line()
        output.table(("PART", "VERDICT", "TEXT", "RULE", "WHERE"), rows)


def _where(part: Part) -> str:
    inside = getattr(part, "inside", None)
    return f"in `{inside}`" if inside else "itself"


def _decided(part: Part) -> tuple[str | None, str | None]:
    if part.grants:
        return f"grant {', '.join(part.grants)}", None
    return _joined(rule.text for rule in part.rules), _joined(map(place_of, part.rules))


def _joined(texts: Iterable[str]) -> str | None:
    return "; ".join(texts) or None


def place_of(rule: RuleRef) -> str:
    """Return the place of a rule: `file:line`, or else its layer."""
    return f"{rule.file}:{rule.line}" if rule.file and rule.line else rule.file or rule.layer or "-"


def _nearly(output: CommandOutput, near: tuple[Near, ...]) -> None:
    if near:
        output.line()
        output.line("rules that nearly decided:")
        for one in near:
            output.line(f"  {one.rule.ref.text} ({one.rule.place}): {one.why}")
