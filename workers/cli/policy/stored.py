"""`policy stored`: the rules that sessions name, as they are stored on the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from ledger import DamageError, InputError
from ledger.log.tail import read_pages
from ledger.stores.port import StreamKey
from workers.cli.base import command, with_ledger
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput, talk
from workers.upkeep.stored_rulesets import KIND, StoredRuleset, read_stored_ruleset

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS: Final = ("digest", "dialect", "rules", "bytes", "problem")
RULE_COLUMNS: Final = ("action", "permission", "pattern", "layer", "where")
STREAM: Final = "policy:"
"""The beginning of the names of streams of rules, as errors have them."""

KEYS_AT_ONCE_COUNT: Final = 500


class _Sized(NamedTuple):
    """Rules on the server, with what they take there."""

    ruleset: StoredRuleset
    size_bytes: int

    def as_json(self) -> dict[str, Any]:
        source = self.ruleset.source
        return {
            "digest": self.ruleset.digest,
            "stream": self.ruleset.stream,
            "dialect": None if source is None else source.dialect,
            "rules": None if source is None else len(self.ruleset.rules),
            "bytes": self.size_bytes,
            "problem": self.ruleset.problem,
        }


@command(
    "stored",
    examples=(
        "permission-ledger policy stored",
        "permission-ledger policy stored 976f0859a9a6fce7f1861b4dac187652b40c090c842a3debca230d389d33edf6 --json",
    ),
)
@click.argument("digest", required=False)
@with_ledger
async def stored(ledger: Ledger, output: CommandOutput, *, digest: str | None) -> int:
    """List the rules that are stored on the server, with their size in bytes; or print those of one DIGEST.

    A DIGEST is what `show --json` and the log have as `policy_digest`, whole; `policy:` before it is accepted. With --json it is
    printed as it is stored. Rules that are damaged are named with the reason (exit code 11). The list passes over all keys of the server.
    """
    if digest is not None:
        return await _print_one(ledger, output, digest.removeprefix(STREAM))
    rows = [(await _read(ledger, one)) async for one in _digests(ledger)]
    rows.sort(key=lambda one: (-one.size_bytes, one.ruleset.digest))
    if output.as_json:
        output.rows(one.as_json() for one in rows)
    elif rows:
        output.table(COLUMNS, [_cells(one) for one in rows])
    talk(f"{len(rows)} rulesets, {sum(one.size_bytes for one in rows)} bytes")
    return Exit.FINDINGS if any(one.ruleset.problem for one in rows) else Exit.DONE


async def _print_one(ledger: Ledger, output: CommandOutput, digest: str) -> int:
    found = await _read(ledger, digest)
    ruleset, size_bytes = found
    if not size_bytes and ruleset.problem is not None:
        raise InputError(
            f"no rules are stored under `{digest}`", hint="`permission-ledger policy stored` lists the digests"
        )
    if ruleset.source is None:
        raise DamageError(f"stream `{ruleset.stream}`: {ruleset.problem}", stream=ruleset.stream)
    if output.as_json:
        output.row({**found.as_json(), "policy": msgspec.to_builtins(ruleset.source)})
        return Exit.DONE
    output.line(f"{ruleset.source.dialect}, {len(ruleset.rules)} rules, {size_bytes} bytes")
    rows = [(one.action.value, one.permission, one.pattern, one.ref.layer, one.place) for one in ruleset.rules]
    if rows:
        output.table(RULE_COLUMNS, rows)
    return Exit.DONE


async def _digests(ledger: Ledger) -> AsyncIterator[str]:
    """Iterate over the digests of all stored rules, each once."""
    seen: set[str] = set()
    cursor = ""
    while True:
        keys, cursor = await ledger.store.admin.streams_page(cursor, KEYS_AT_ONCE_COUNT)
        for key in keys:
            if key.kind == KIND and key.id not in seen:
                seen.add(key.id)
                yield key.id
        if not cursor:
            return


async def _read(ledger: Ledger, digest: str) -> _Sized:
    found, size_bytes = await read_stored_ruleset(ledger.store, digest), 0
    try:
        async for page in read_pages(ledger.store, StreamKey(KIND, digest)):
            size_bytes += sum(len(one.payload) + len(one.content or b"") for one in page)
    except DamageError:
        # What is there and cannot be read has a size that is not known.
        size_bytes = max(size_bytes, 1)
    return _Sized(found, size_bytes)


def _cells(one: _Sized) -> tuple[object, ...]:
    row = one.as_json()
    return tuple(row[name] for name in COLUMNS)
