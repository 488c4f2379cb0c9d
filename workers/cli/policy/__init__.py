"""`permission-ledger policy …`: rules judged, explained and checked."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, ListedCommand

_ASK = "Ask the rules"
_CARE = "Care for the rules"

COMMANDS = {
    "check": ListedCommand("workers.cli.policy.check:check", "Judge JSON lines from stdin, one answer a line.", _ASK),
    "explain": ListedCommand(
        "workers.cli.policy.explain:explain", "Explain why a command would run, ask or be denied.", _ASK
    ),
    "shell": ListedCommand("workers.cli.policy.shell:shell", "Show what a command line would run.", _ASK),
    "remember": ListedCommand("workers.cli.policy.remember:remember", "Show what can be remembered for a call.", _ASK),
    "disabled": ListedCommand("workers.cli.policy.rules:disabled", "List the tools that are wholly denied.", _ASK),
    "rules": ListedCommand("workers.cli.policy.rules:rules", "Print the rules in force, with their layers.", _CARE),
    "lint": ListedCommand("workers.cli.policy.lint:lint", "Report problems in rules.", _CARE),
    "test": ListedCommand("workers.cli.policy.table:table", "Test rules against a table of expected verdicts.", _CARE),
}

policy = LazyGroup(
    COMMANDS,
    name="policy",
    help="Judge, explain and check rules, without a server.",
)
