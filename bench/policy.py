"""Speed of the rules: against a direct port of the spec's algorithm, with and without the analysis of shell lines.

Needs no server.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.place import Place, Probe
from bench.report import Asked, Fsync
from ledger.policy import Call, Layer, Policy, PolicySource, Rule, Verdict, compile_policy
from ledger.policy.matching import match

BENIGN: Final = Path(__file__).parents[1] / "tests/data/policy/shell.json"
FEW_RULES_COUNT, MANY_RULES_COUNT = 100, 1_000
TEXT_COUNT: Final = 50
SHAPES: Final = {"by name": "tool{} run *", "one program": "git sub{} *", "in the middle": "*tool{}*x"}
DIALECTS: Final = ("opencode", "claude", "betcode", "codelia")
ALLOW_ALL: Final[dict[str, Any]] = {
    "opencode": {"permission": {"bash": {"*": "allow"}}},
    "claude": {"permissions": {"allow": ["Bash"]}},
    "betcode": {"permissions": {"allow": ["Bash"]}},
    "codelia": {"version": 1, "permissions": {"allow": [{"tool": "bash", "command_glob": "*"}]}},
}
LINES: Final[dict[str, Callable[[int], str]]] = {
    "quotes": lambda size: "ls " + "\"'" * (32_000 // 8 * size),
    "segments": lambda size: ";".join(["ls"] * (10_000 // 8 * size)),
    "different commands": lambda size: "; ".join(f"ls {number}" for number in range(7_000 // 8 * size)),
}
LONGEST_MS_MAX: Final = 250
SIZES: Final = (4, 8)
"""Sizes in eighths of the whole; the second is twice the first, so linear time doubles."""
LINEAR_RATIO_MAX: Final = 2.5
"""The largest ratio that counts as linear: two, and the noise of a busy machine."""


def spec_match(value: str, pattern: str) -> bool:
    """Match as opencode-zh.md 4.2 does, line by line: the pattern is compiled to a regular expression at every call."""
    escaped = re.sub(r"[.+^${}()|\[\]\\]", r"\\\g<0>", pattern.replace("\\", "/"))
    escaped = escaped.replace("*", ".*").replace("?", ".")
    if escaped.endswith(" .*"):
        escaped = escaped.removesuffix(" .*") + "( .*)?"
    return re.match(f"^{escaped}$", value.replace("\\", "/"), re.DOTALL) is not None


def spec_evaluate(permission: str, text: str, rules: Sequence[Rule]) -> Verdict:
    """Evaluate as opencode-zh.md 4.1 does: the last rule whose permission and pattern match, else ask."""
    for rule in reversed(rules):
        if spec_match(permission, rule.permission) and spec_match(text, rule.pattern):
            return rule.action
    return Verdict.ASK


def numbered_rules(shape: str, count: int) -> tuple[Rule, ...]:
    return tuple(Rule("bash", shape.format(number), Verdict.ALLOW) for number in range(count))


def texts_for(shape: str, count: int) -> list[str]:
    """Return texts of which half match a rule, spread over all rules, and half match none."""
    step = count // (TEXT_COUNT // 2)
    found = [shape.format(number).replace("*", "a") for number in range(0, count, step)]
    return found + [text.replace("tool", "tall").replace("sub", "sob") for text in found]


def faithful(rules: tuple[Rule, ...]) -> Policy:
    return compile_policy(PolicySource(layers=(Layer("bench", rules=rules),), options={"profile": "faithful"}))


def seconds_each(work: Callable[[Any], object], items: Iterable[Any], times: int = 1) -> float:
    """Return processor seconds per call: judging waits for nothing, and the machine may be shared."""
    listed = list(items) * times
    began = time.process_time()
    for item in listed:
        work(item)
    return (time.process_time() - began) / len(listed)


class PolicySpeed(Probe):
    """Evaluations of compiled rules without a cache of verdicts."""

    name = "policy"

    async def start(self, place: Place) -> None:
        self._times = self.size(20, 4)
        self._lines = [row["command"] for row in json.loads(BENIGN.read_text())["benign"]]

    async def round(self, fsync: Fsync) -> None:
        for label, shape in SHAPES.items():
            self._evaluations(fsync, label, shape)
        for dialect in DIALECTS:
            self._hardened(fsync, dialect)
        self._backtracking(fsync)
        for label, line_of in LINES.items():
            for dialect in DIALECTS:
                policy = _allow_all(dialect, "hardened")
                for size in SIZES:
                    call = _shell_call(dialect, line_of(size))
                    taken = min(seconds_each(policy.evaluate, [call]) for _ in range(3))
                    self._rounds.add(fsync, f"{dialect} {label} {size}", taken * 1e3)

    def _evaluations(self, fsync: Fsync, label: str, shape: str) -> None:
        rules, texts = numbered_rules(shape, FEW_RULES_COUNT), texts_for(shape, FEW_RULES_COUNT)
        few, many = faithful(rules), faithful(numbered_rules(shape, MANY_RULES_COUNT))
        for text in texts:
            assert few.evaluate(Call("bash", (text,))).verdict is spec_evaluate("bash", text, rules), text
        port = seconds_each(lambda text: spec_evaluate("bash", text, rules), texts)
        calls = [Call("bash", (text,)) for text in texts]
        many_calls = [Call("bash", (text,)) for text in texts_for(shape, MANY_RULES_COUNT)]
        seconds_each(many.evaluate, many_calls)
        self._rounds.add(fsync, f"{label} port", 1 / port)
        self._rounds.add(fsync, f"{label} few", 1 / seconds_each(few.evaluate, calls, self._times))
        self._rounds.add(fsync, f"{label} few us", seconds_each(few.evaluate, calls, self._times) * 1e6)
        self._rounds.add(fsync, f"{label} many us", seconds_each(many.evaluate, many_calls, self._times) * 1e6)

    def _hardened(self, fsync: Fsync, dialect: str) -> None:
        plain, hard = (_allow_all(dialect, profile) for profile in ("faithful", "hardened"))
        more = []
        for line in self._lines:
            call = _shell_call(dialect, line)
            without = min(seconds_each(plain.evaluate, [call]) for _ in range(3))
            more.append(min(seconds_each(hard.evaluate, [call]) for _ in range(3)) - without)
        self._rounds.add(fsync, f"{dialect} more", median(more) * 1e6)

    def _backtracking(self, fsync: Fsync) -> None:
        pattern = "*a" * 20 + "*c*"
        for size in (10_000, 20_000):
            taken = min(seconds_each(lambda text: match(text, pattern), ["a" * size]) for _ in range(5))
            self._rounds.add(fsync, f"stars {size}", taken * 1e6)

    def asked(self) -> list[Asked]:
        rows = []
        for label in SHAPES:
            what = f"evaluations, {FEW_RULES_COUNT} wildcard rules, {label}"
            rows.append(Asked(what, "everysec", f"{label} few", "/s", f"{label} port", at_least=40))
            what = f"{MANY_RULES_COUNT:,} rules against {FEW_RULES_COUNT}, {label}"
            rows.append(Asked(what, "everysec", f"{label} many us", "us", f"{label} few us", at_most=1.5))
        rows += [
            Asked(f"shell analysis, {dialect}: more", "everysec", f"{dialect} more", "us", at_most=250)
            for dialect in DIALECTS
        ]
        what = "`*a` x 20 and `*c*`, 20,000 `a`s against 10,000"
        rows.append(Asked(what, "everysec", "stars 20000", "us", "stars 10000", at_most=LINEAR_RATIO_MAX))
        for label in LINES:
            for dialect in DIALECTS:
                half, whole = (f"{dialect} {label} {size}" for size in SIZES)
                what = f"{dialect}: {label}, whole against half"
                rows.append(Asked(what, "everysec", whole, "ms", half, at_most=LINEAR_RATIO_MAX))
                rows.append(Asked(f"{dialect}: {label}, whole", "everysec", whole, "ms", at_most=LONGEST_MS_MAX))
        return rows


def _shell_call(dialect: str, line: str) -> Call:
    tool = "Bash" if dialect in ("betcode", "claude") else "bash"
    return Call(tool, (), tool, {"command": line}, "/srv")


def _allow_all(dialect: str, profile: str) -> Policy:
    options = {"profile": profile, "cwd": "/srv", "home": "/home/user", "fs": {}}
    layer = Layer("bench", config=ALLOW_ALL[dialect])
    return compile_policy(PolicySource(dialect=dialect, layers=(layer,), options=options))
