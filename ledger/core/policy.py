"""The types common to all dialects: rule, layer, call, part, evaluation, grant.

A *dialect* compiles configuration (layers) into a `Policy`; a `Policy` judges a `Call` with the grants in force and
returns an `Evaluation`, which is recorded unchanged in the `Asked` event. All types are values: no I/O, no clock, no
implicit configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Protocol, get_args

import msgspec


class Verdict(StrEnum):
    """The verdict of rules on a call, ordered by strictness: allow < ask < deny."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


STRICTNESS: Final = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine the verdicts of several parts; without parts it is allow (there is nothing to run)."""
    return max(verdicts, key=STRICTNESS.__getitem__, default=Verdict.ALLOW)


CallEffect = Literal["reads", "changes_here", "changes_elsewhere", "irreversible"]
"""The effect of a call: it reads; git brings it back; it changes something elsewhere; nothing undoes it."""

EFFECTS: Final[tuple[CallEffect, ...]] = get_args(CallEffect)
"""All of them, the mildest first."""


ReplyKind = Literal["once", "session", "always", "reject"]
AnswerBy = Literal["passkey"]


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A permission rule in the form common to OpenCode, BRUTUS and the `rules=` argument.

    `permission` and `pattern` may contain wildcards. `layer`, `file` and `line` (1-based) are the rule's origin; all
    three are None for rules from a program. `answer_by` is a demand on every answer to a call that the rule matches.
    """

    permission: str
    pattern: str
    action: Verdict
    layer: str | None = None
    file: str | None = None
    line: int | None = None
    answer_by: AnswerBy | None = None


class RuleRef(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A reference to a rule in an evaluation: its text in the dialect's own spelling, and its origin."""

    text: str
    layer: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str | None:
        """Return `file:line`, or the file alone; else the layer, if that is known."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file or self.layer


ApproversCount = Annotated[int, msgspec.Meta(ge=2, le=9)]
"""The number of people whose yes a rule demands."""


class Demand(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A condition on the answer to a request.

    `not_by="asker"`: neither the agent that asked nor the owner of its token may give the answer.
    `answer_by="passkey"`: a passkey of the person who answers must sign it. `replies` are the answers that it concerns
    (`session` and `always` together, because both make grants), `roles` the roles whose answers; an empty one means
    all. `approvers` is the number of distinct people whose yes the call needs, none of them its asker or the owner of its
    token; with `among`, only these people count. It concerns every yes, whatever `replies` and `roles` say.
    """

    not_by: Literal["asker"] | None = None
    answer_by: AnswerBy | None = None
    replies: tuple[ReplyKind, ...] = ()
    roles: tuple[str, ...] = ()
    approvers: ApproversCount | None = None
    among: tuple[str, ...] = ()


class DemandRule(Demand, frozen=True, omit_defaults=True, gc=False):
    """A demand on every call that permission and pattern match; both may contain wildcards.

    With `dangerous` it concerns only shell lines that `ledger.policy.danger` classifies as dangerous, with `effect` only
    calls of this effect or a worse one. `action` is the least strict verdict on such a call: a person is asked, or it is
    denied, whatever the rules and grants allow.
    """

    permission: str = "*"
    pattern: str = "*"
    dangerous: bool = False
    effect: CallEffect | None = None
    action: Literal["ask", "deny"] | None = None


class Layer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One source of configuration, lowest first.

    Exactly one of `config` (the source's own file, parsed JSON) and `rules` (already normalised) is given.
    `trusted=False` means that its allow rules do not count. `lines` has the line (1-based) in `file` of each member of
    `config`, by JSON pointer. `demands` count whether the layer is trusted or not.
    """

    name: str
    config: Any = None
    rules: tuple[Rule, ...] = ()
    file: str | None = None
    trusted: bool = True
    lines: dict[str, int] = {}
    demands: tuple[DemandRule, ...] = ()


class PolicySource(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """All inputs of a verdict besides the call and the grants; stored in the log, so that replay needs no file.

    `options` are those of the dialect (`profile`, `edition`, `order`, `compat`, `agent`, `mode`, `home`, …).
    `untrusted` is the reason, in words, for which nobody vouches for these rules: then only their denies count, every
    other call is asked, and no grant lifts that. None for rules that count in full.
    """

    dialect: str = "opencode"
    layers: tuple[Layer, ...] = ()
    options: dict[str, Any] = {}
    untrusted: str | None = None


class Grant(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A grant as input of a dialect: `pattern` is one entry of the `always` list of its request."""

    grant_id: str
    permission: str
    pattern: str
    scope: str = "session"


class Call(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A call of an agent: either permission and patterns, or a tool's name and its input.

    `agent` is the name of who makes it, whose section of the rules counts.
    """

    permission: str
    patterns: tuple[str, ...] = ()
    tool_name: str | None = None
    input: Any = None
    cwd: str | None = None
    agent: str | None = None


class Part(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One part of a call that was judged separately.

    `liftable`: a grant may turn this part's ask into an allow. A configured deny, and an ask that the dialect ranks
    above grants, are not liftable. `grants` are the ids of the grants that lifted it. `inside` is the text of the
    enclosing part, for a command that a wrapper or a substitution runs.
    """

    text: str
    verdict: Verdict
    rules: tuple[RuleRef, ...] = ()
    liftable: bool = True
    grants: tuple[str, ...] = ()
    inside: str | None = None


class ConsultedFile(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One fact about a file: its path, the question, and the answer at that time.

    `target` is the path with every link followed; no answer means the path itself. `kind` is `file` or `dir`, links
    followed; no answer means that no file was known there.
    """

    path: str
    asked: Literal["target", "kind"] = "target"
    found: str | None = None


class ConsultedFacts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The facts outside the log on which an evaluation rests.

    `own_folders` are the ledger's data folders, where the call touched one. With `too_many`, more files were consulted
    than an event may hold: the call was judged as if no file could be read, and at least as strictly as this verdict,
    which is the one by all files.
    """

    files: tuple[ConsultedFile, ...] = ()
    own_folders: tuple[str, ...] = ()
    too_many: Verdict | None = None


class Evaluation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A verdict with its reasons.

    `rules` are those that decided; `message` is the source system's message to the agent (for a deny only); `reason` is
    a sentence for a verdict that comes from no rule. `always` are the patterns that an `always` reply would grant, and
    `ask_first` the calls (for example for an external directory) that must be allowed before this one is asked. `facts`
    are recorded with it, and are no part of what agents and people are shown. `effect` is a `CallEffect`, recorded for
    a call that a person must answer; `counted_effect` reads it.
    """

    verdict: Verdict
    parts: tuple[Part, ...] = ()
    rules: tuple[RuleRef, ...] = ()
    message: str | None = None
    reason: str | None = None
    always: tuple[str, ...] = ()
    ask_first: tuple[Call, ...] = ()
    facts: ConsultedFacts | None = None
    effect: str | None = None


def counted_effect(evaluation: Evaluation | None) -> CallEffect:
    """Return the effect of a recorded call; an absent or unknown one counts as the worst."""
    recorded = None if evaluation is None else evaluation.effect
    return next((known for known in EFFECTS if known == recorded), EFFECTS[-1])


class Offer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One choice of what to remember for a call.

    `entries` are patterns of grants. `reach` is `exact` for the call alone, `kind` for calls like it, `all` for more.
    `wide` warns that the entries allow much more than this call. `name` describes entries about a whole tool in words;
    `still_asked` describes what the next such call is asked about all the same.
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
        """Judge a call. Total: a rule that cannot be evaluated makes the verdict stricter, never looser."""
        ...

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Return whether this grant would allow a part that was recorded as ask (for the cascade of `always`)."""
        ...

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that are denied entirely, which can be hidden from a model."""
        ...


def edition_of(source: PolicySource) -> str | None:
    """Return the edition of its dialect that a source chooses, if any."""
    edition = source.options.get("edition")
    return edition if isinstance(edition, str) else None


def demand_rules(source: PolicySource) -> tuple[DemandRule, ...]:
    """Return the demands of all layers, lowest first: separate ones, and those of single rules."""
    found: list[DemandRule] = []
    for layer in source.layers:
        found += layer.demands
        for rule in layer.rules:
            if rule.answer_by is not None:
                found.append(DemandRule(answer_by=rule.answer_by, permission=rule.permission, pattern=rule.pattern))
    return tuple(found)
