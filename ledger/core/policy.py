"""The neutral words in which every dialect answers: rule, layer, call, part, evaluation, grant.

A *dialect* turns somebody's configuration (layers) into a `Policy`; a `Policy` judges a `Call` together with the
grants in force and gives an `Evaluation`, which is recorded word for word in the `Asked` event. Everything here is a
value: no I/O, no clock, no configuration read behind the caller's back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec


class Verdict(StrEnum):
    """What rules say about a call, ordered by strictness: allow < ask < deny."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine the verdicts of several parts; nothing to judge is allow (there is nothing to run)."""
    return max(verdicts, key=_STRICTNESS.__getitem__, default=Verdict.ALLOW)


ReplyKind = Literal["once", "session", "always", "reject"]
AnswerBy = Literal["passkey"]


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One permission rule in the form that OpenCode, BRUTUS and the `rules=` argument share.

    `permission` and `pattern` are wildcards on the rule side. `layer`, `file` and `line` (1-based) say where the rule
    was written; all three are None for rules that a program handed in. `answer_by` is a demand on every answer to what
    the rule matches.
    """

    permission: str
    pattern: str
    action: Verdict
    layer: str | None = None
    file: str | None = None
    line: int | None = None
    answer_by: AnswerBy | None = None


class RuleRef(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A rule as an evaluation names it: its text in the dialect's own spelling and where it stands."""

    text: str
    layer: str | None = None
    file: str | None = None
    line: int | None = None


class Demand(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A condition on the answer to a request.

    `not_by="asker"`: the answer is not given by the agent that asked, nor by the person whom its token names as owner.
    `answer_by="passkey"`: a passkey of the person who answers has signed it. `replies` are the answers that it concerns
    (`session` and `always` together, since both make grants), `roles` the roles whose answers; none named is all.
    """

    not_by: Literal["asker"] | None = None
    answer_by: AnswerBy | None = None
    replies: tuple[ReplyKind, ...] = ()
    roles: tuple[str, ...] = ()


class DemandRule(Demand, frozen=True, omit_defaults=True, gc=False):
    """A demand on every call of a permission that a pattern matches; both are wildcards.

    With `dangerous` it is one on those shell lines alone that `ledger.policy.danger` calls so.
    """

    permission: str = "*"
    pattern: str = "*"
    dangerous: bool = False


class Layer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One source of configuration, lowest first.

    Exactly one of `config` (the source's own file, parsed JSON) and `rules` (already normalised) is given.
    `trusted=False` means that its allow rules do not count. `lines` says on which line (1-based) of `file` a member of
    `config` stands, by JSON pointer. `demands` count whether the layer is trusted or not.
    """

    name: str
    config: Any = None
    rules: tuple[Rule, ...] = ()
    file: str | None = None
    trusted: bool = True
    lines: dict[str, int] = {}
    demands: tuple[DemandRule, ...] = ()


class PolicySource(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything a verdict depends on besides the call and the grants; stored in the log, so replay needs no file.

    `options` holds what the dialect understands (`profile`, `edition`, `order`, `compat`, `agent`, `mode`, `home`, …).
    """

    dialect: str = "opencode"
    layers: tuple[Layer, ...] = ()
    options: dict[str, Any] = {}


class Grant(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A standing allow as a dialect sees it: `pattern` is one entry of the `always` list of the request it came from."""

    grant_id: str
    permission: str
    pattern: str
    scope: str = "session"


class Call(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What an agent wants to do: either permission and patterns, or a tool's name and its input."""

    permission: str
    patterns: tuple[str, ...] = ()
    tool_name: str | None = None
    input: Any = None
    cwd: str | None = None


class Part(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One piece of a call that was judged by itself.

    `liftable` says whether a grant may turn this part's ask into an allow; a configured deny, and an ask that the
    dialect puts above grants, are not liftable. `grants` are the ids of the grants that did lift it. `inside` is the
    text of the part that this one was found in: what a wrapper or a substitution runs.
    """

    text: str
    verdict: Verdict
    rules: tuple[RuleRef, ...] = ()
    liftable: bool = True
    grants: tuple[str, ...] = ()
    inside: str | None = None


class Evaluation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A verdict with its reasons.

    `rules` are those that decided; `message` is what the source system would tell the agent (a deny only);
    `reason` explains in a sentence what no rule says. `always` is what an `always` reply would grant and
    `ask_first` are calls (for example an external directory) that must be allowed before this one is asked.
    """

    verdict: Verdict
    parts: tuple[Part, ...] = ()
    rules: tuple[RuleRef, ...] = ()
    message: str | None = None
    reason: str | None = None
    always: tuple[str, ...] = ()
    ask_first: tuple[Call, ...] = ()


class Offer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One choice of what to remember for a call.

    `entries` are patterns of grants. `reach` is `exact` for the call alone, `kind` for calls like it, `all` for more.
    `wide` warns that much more than this call is let through. `name` says in words what entries about a whole tool are;
    `still_asked` what the next such call is asked about all the same.
    """

    entries: tuple[str, ...]
    reach: Literal["exact", "kind", "all"] = "all"
    wide: bool = False
    name: str | None = None
    still_asked: tuple[str, ...] = ()


class Policy(Protocol):
    """A compiled configuration of one dialect. Immutable; safe to share between sessions and threads."""

    @property
    def source(self) -> PolicySource: ...

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Judge a call. Total: a rule that cannot be evaluated raises the verdict, it never loosens it."""
        ...

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Whether this grant would allow a part that was recorded as ask (used when an `always` reply cascades)."""
        ...

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """The tools that are wholly denied, so that a model need not be told of them."""
        ...


def demand_rules(source: PolicySource) -> tuple[DemandRule, ...]:
    """Return the demands of all layers, lowest first: those that stand by themselves, and those of single rules."""
    return tuple(
        [
            demand
            for layer in source.layers
            for demand in (*layer.demands, *(_of_rule(rule) for rule in layer.rules if rule.answer_by is not None))
        ]
    )


def _of_rule(rule: Rule) -> DemandRule:
    return DemandRule(answer_by=rule.answer_by, permission=rule.permission, pattern=rule.pattern)
