"""Analysis of a command line: plain or not with a reason, and all commands at any depth and behind any wrapper."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.policy.shell.grammar import read
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Analysis
from ledger.policy.shell.parse import COMMANDS_MAX, Budget, Found, parse
from ledger.policy.shell.unwrap import unwrap
from ledger.policy.shell.words import join_lines, strange_character, too_long


def analyse(source: str) -> Analysis:
    """Analyse one command line.

    Pure, total and deterministic; takes at most 250 ms for 64 KiB. A longer line is not parsed. Commands beyond a bound
    of counted steps are left out of `commands`; the line is then not plain and `reason` names the bound.
    """
    line = lex(source)
    if line.plain or line.redirects_only:
        return _analysed(_fed(line, source), source)
    if too_long(source) or strange_character(source) is not None:
        return _analysed(line, source)
    reading = read(source)
    if reading.reason is not None:
        return _analysed(replace(line, reason=reading.reason), source)
    budget = Budget()
    found = list(map(Found, reading.commands, reading.stdin))
    commands = tuple(unwrap(found, budget))
    if budget.spent is not None:
        return Analysis(plain=False, reason=budget.spent, commands=commands, cut=True)
    plain = reading.redirects is None
    flow, constructs = reading.flow, reading.constructs
    return Analysis(plain, reading.redirects, commands, redirects_only=not plain, flow=flow, constructs=constructs)


def _fed(line: Analysis, source: str) -> Analysis:
    """Return a line of simple commands with the known input of each `xargs`."""
    if not any(command.name == "xargs" for command in line.commands) or len(line.commands) > COMMANDS_MAX:
        return line
    known = read(source).commands
    if [command.text for command in known] != [command.text for command in line.commands]:
        return line
    commands = tuple(replace(one, fed=other.fed) for one, other in zip(line.commands, known, strict=True))
    return replace(line, commands=commands)


def analyse_simple(source: str) -> Analysis:
    """Analyse a line as simple commands only: any compound, variable or substitution makes it not plain."""
    line = lex(source)
    return _analysed(_fed(line, source) if line.plain or line.redirects_only else line, source)


def _analysed(line: Analysis, source: str) -> Analysis:
    budget = Budget()
    if line.plain or line.redirects_only:
        kept = line.commands
        if len(kept) > COMMANDS_MAX and len({command.text for command in kept}) > COMMANDS_MAX:
            # Equal commands are judged once, so many thousand of them cost little.
            kept = kept[:COMMANDS_MAX]
            budget.spend_commands()
        found = [Found(command) for command in kept]
    elif too_long(source):
        return line
    else:
        found = _parse(source, budget)
    commands = tuple(unwrap(found, budget))
    if budget.spent is not None:
        return Analysis(plain=False, reason=line.reason or budget.spent, commands=commands, cut=True)
    return Analysis(line.plain, line.reason, commands, line.operators, line.redirects_only)


def _parse(source: str, budget: Budget) -> list[Found]:
    """Parse the line with and without joined continued lines; joining may be wrong inside a nested quote."""
    joined = join_lines(source)
    found = parse(joined, budget)
    if joined != source:
        texts = {one.command.text for one in found}
        found += [one for one in parse(source, budget) if one.command.text not in texts]
    return found
