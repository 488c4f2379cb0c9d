"""The figures of a run on clusters, with their targets; as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bench.cluster.nodes import Load
from bench.cluster.touches import Touches
from bench.report import SIGNS, Relation, holds, verdict

JSON_VERSION: Final = 1

GAIN_MIN: Final = 0.9
"""Capacity of a cluster against that of one primary, for each of its primaries."""

SHARE_TOLERANCE: Final = 0.1
"""The deviation of a primary's load from an equal share."""

KEY_SHARE_MAX: Final = 0.01
"""The share of all touches that one key may have which sessions share: a hundred primaries could still share the work."""

WHOLE_SHARE_MAX: Final = 0.01
"""The share of all touches that the keys of the whole ledger may have together."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """One size of cluster. Both capacities are in events a second, when the busiest primary has no time left.

    `capacity` counts the commands at their median time, `processor_capacity` all of the primaries' processor time: also
    reading, writing and waking up, which take less for a command the more of them come together.
    """

    primaries: int
    events: int
    microseconds_an_event: float
    script_microseconds: float
    capacity: float
    processor_capacity: float


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One primary of the largest cluster; the shares are of the sum of all."""

    processor_share: float
    command_share: float
    commands_share: float
    keys_share: float
    memory_share: float


class ClusterTarget(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    value: float
    relation: Relation
    target: float
    holds: bool


class ClusterRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, in the form of `--json`."""

    version: int = JSON_VERSION
    sessions: int
    scales: list[Scale]
    nodes: list[NodeFigures]
    touches: int
    hottest: list[tuple[str, float]]
    targets: list[ClusterTarget]

    @classmethod
    def of(
        cls, sessions: int, scales: list[Scale], nodes: list[NodeFigures], touches: Touches, count: int
    ) -> ClusterRun:
        hottest = [(key, times / touches.total) for key, times in touches.hottest(count)]
        deviation = max(
            abs(share * len(nodes) - 1) for one in nodes for share in (one.processor_share, one.command_share)
        )
        return cls(
            sessions=sessions,
            scales=scales,
            nodes=nodes,
            touches=touches.total,
            hottest=hottest,
            targets=[
                *(
                    _target(
                        f"capacity of {one.primaries} primaries, for each, against one",
                        one.capacity / scales[0].capacity / one.primaries,
                        "at least",
                        GAIN_MIN,
                    )
                    for one in scales[1:]
                ),
                _target("deviation of a primary's load from an equal share", deviation, "at most", SHARE_TOLERANCE),
                _target("share of the most used key but a session's own", hottest[0][1], "at most", KEY_SHARE_MAX),
                _target(
                    "share of the keys of the whole ledger in partition 0",
                    touches.of_the_whole / touches.total,
                    "at most",
                    WHOLE_SHARE_MAX,
                ),
            ],
        )


def _target(what: str, value: float, relation: Relation, target: float) -> ClusterTarget:
    held = holds(value, relation, target)
    return ClusterTarget(what=what, value=value, relation=relation, target=target, holds=held)


def shares_of(used: Sequence[Load]) -> list[NodeFigures]:
    whole = [sum(column) for column in zip(*used, strict=True)]
    shares = [Load._make(value / of for value, of in zip(one, whole, strict=True)) for one in used]
    return [
        NodeFigures(
            processor_share=one.processor_seconds,
            command_share=one.command_seconds,
            commands_share=one.commands,
            keys_share=one.keys,
            memory_share=one.memory_bytes,
        )
        for one in shares
    ]


HEADINGS: Final = ("what", "measured", "target", "")


def lines(run: ClusterRun) -> Iterator[tuple[str, str, str, str]]:
    """Iterate over the rows of the table."""
    for scale in run.scales:
        of = f"{scale.primaries} primaries"
        yield f"{of}: capacity on paper", f"{scale.capacity:,.0f} events/s", "", ""
        yield f"{of}: … with all processor time", f"{scale.processor_capacity:,.0f} events/s", "", ""
        yield f"{of}: the servers' processor time an event", f"{scale.microseconds_an_event:.0f} us", "", ""
        yield f"{of}: a script", f"{scale.script_microseconds:.0f} us", "", ""
    for place, node in enumerate(run.nodes, 1):
        shares = msgspec.structs.asdict(node).items()
        told = ", ".join(f"{name.removesuffix('_share')} {value:.1%}" for name, value in shares)
        yield f"shares of primary {place}", told, "", ""
    for key, share in run.hottest:
        yield f"share of `{key}`, of {run.touches:,} touches", f"{share:.2%}", "", ""
    for one in run.targets:
        yield one.what, f"{one.value:.3f}", f"{SIGNS[one.relation]} {one.target:g}", verdict(one.holds)
