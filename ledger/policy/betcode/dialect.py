"""The object of the dialect `betcode`."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.core.events import Extending
from ledger.core.policy import Policy, PolicySource, Verdict, strictest
from ledger.policy.betcode.policy import OPTIONS, BetCodePolicy
from ledger.policy.dialect import FAITHFUL, Answers
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.toolrules.commands import has_wildcard
from ledger.policy.toolrules.dialect import TOOL_RULES, ToolRuleDialect, ToolRuleNotation


class _Notation(ToolRuleNotation):
    def as_wildcard(self, rule: ListedRule) -> str:
        """Return a wildcard; a deny or ask for `git push` matches every command that begins with its words."""
        text = super().as_wildcard(rule)
        return text if rule.action is Verdict.ALLOW or has_wildcard(text) else f"{text} *"

    def decides_before(self, first: ListedRule, second: ListedRule) -> bool | None:
        if (first.pattern == WHOLE) is (second.pattern == WHOLE):
            return None
        wide, narrow = (second, first) if second.pattern == WHOLE else (first, second)
        return (wide is first) is _outranks(wide, narrow)


class _Answers(Answers, frozen=True):
    def extending(self, source: PolicySource) -> Extending:
        """Return that nothing moves the 60 seconds in profile `faithful` (betcode.md, Permission Timeout Handling)."""
        return "never" if source.options.get("profile") == FAITHFUL else "automatic"


class BetCodeDialect(ToolRuleDialect):
    """BetCode's Permission Bridge (betcode.md)."""

    name = "betcode"
    language = replace(
        TOOL_RULES,
        options=OPTIONS,
        members=("allow", "ask", "deny", "final"),
        rule_files=("betcode.json",),
        keeping_a_deny="mark the deny as `final`",
    )
    notation = _Notation()
    answers = _Answers(cascade_reject="none", always_scope="session")

    def compile(self, source: PolicySource) -> Policy:
        return BetCodePolicy(source)


def _outranks(wide: ListedRule, narrow: ListedRule) -> bool:
    """Return whether a wide rule holds against a narrow one: it is stricter, and final or of a higher layer."""
    stricter = strictest((wide.action, narrow.action)) is not narrow.action
    return stricter and (wide.final or wide.rank > narrow.rank)
