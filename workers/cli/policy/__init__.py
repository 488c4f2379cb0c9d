"""`permission-ledger policy …`: what rules say, why, what is wrong with them, and how to carry them over."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, Listed

_ASK = "Ask the rules"
_CARE = "Care for the rules"

COMMANDS = {
    "check": Listed("workers.cli.policy.check:check", "Judge JSON lines from stdin, one answer a line.", _ASK),
    "explain": Listed("workers.cli.policy.explain:explain", "Say why a command would run, ask or be denied.", _ASK),
    "shell": Listed("workers.cli.policy.shell:shell", "Show what a command line would run.", _ASK),
    "coverage": Listed("workers.cli.policy.coverage:coverage", "Show which programs and options have tables.", _ASK),
    "remember": Listed("workers.cli.policy.remember:remember", "Show the choices of what to remember.", _ASK),
    "disabled": Listed("workers.cli.policy.disabled:disabled", "List the tools that are wholly denied.", _ASK),
    "rules": Listed("workers.cli.policy.rules:rules", "Print the rules in force, with their layers.", _CARE),
    "lint": Listed("workers.cli.policy.lint:lint", "Find what is wrong with rules.", _CARE),
    "test": Listed("workers.cli.policy.table:table", "Hold rules to a table of expected verdicts.", _CARE),
    "convert": Listed("workers.cli.policy.convert:convert", "Write rules in another dialect.", _CARE),
}

policy = LazyGroup(
    COMMANDS,
    name="policy",
    help="What the rules say about a call, and why. Nothing here needs a server.",
)
