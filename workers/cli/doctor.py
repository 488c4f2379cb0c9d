"""`doctor`: checks of the server, its durability, the workers and the streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from ledger import Ledger
from ledger.client.ledger import named_url
from ledger.core.errors import SetupError
from ledger.stores.redis.addresses import open_doors
from projections.lag import set_back_ms
from workers.bridges import settings_file
from workers.cli.base import command, run_async
from workers.cli.installing import CLAUDE
from workers.cli.output import CommandOutput, Exit, talk
from workers.cli.tables import Wide
from workers.runtime.history import compare_history
from workers.runtime.place import LedgerPlace
from workers.transport.place import BridgeError
from workers.upkeep.health import (
    SAMPLE_COUNT,
    DiskSpace,
    HealthFinding,
    check_deployment,
    check_freezes,
    check_server_facts,
    check_tokens,
    check_trust,
    is_on_this_machine,
    space_of,
)

COLUMNS = ("check", "ok", Wide("what was found"), Wide("what to do"))

MS_PER_NS: Final = 1_000_000


@command("permission-ledger doctor", "permission-ledger doctor --deep --json")
@click.option("--deep", is_flag=True, help=f"Verify every stream, not only {SAMPLE_COUNT} of them.")
def doctor(*, url: str | None, as_json: bool, deep: bool) -> int | None:
    """Check the server and the workers, and say what would lose data or keep people waiting.

    It also says whether history is gone that this machine saw there before, and which file to remove if that is intended.
    """

    async def examined() -> int:
        try:
            findings = await _examine(url, deep=deep)
        except SetupError as error:
            hint = error.data.get("hint") or "change the server's settings, or use another"
            findings = [HealthFinding("server", False, error.text, hint)]
        return _tell(CommandOutput(as_json=as_json), findings)

    return run_async(examined)


async def _examine(url: str | None, *, deep: bool) -> list[HealthFinding]:
    async with Ledger.connect(url) as ledger:
        before_ms = time.time_ns() // MS_PER_NS
        server_ms = await ledger.store.now_ms()
        after_ms = time.time_ns() // MS_PER_NS
        # The server read its clock somewhere in between.
        skew_ms = server_ms - (before_ms + after_ms) // 2
        servers = await ledger.store.server_facts()
        # The primaries of a cluster mostly report the same; each finding is printed once.
        demanded = ledger.store.durability
        space = _space(servers) if is_on_this_machine(named_url(url)) else None
        doors, back_ms = await open_doors(ledger.server_url), await set_back_ms(ledger.store)
        findings = list(
            dict.fromkeys(
                one
                for facts in servers
                for one in check_server_facts(facts, skew_ms, demanded, space, doors, set_back_ms=back_ms)
            )
        )
        compared = await compare_history(ledger.store, LedgerPlace(url, None))
        findings += [] if compared is None else [HealthFinding("history", *compared)]
        findings += await check_deployment(ledger.store, deep=deep)
        findings += check_freezes(await ledger.freezes.in_force(), await ledger.freezes.behind())
        findings += [check_tokens(await ledger.tokens.all(), server_ms), *check_trust()]
    return [*findings, *await asyncio.to_thread(_check_hooks)]


def _check_hooks() -> list[HealthFinding]:
    """Check the hooks of Claude Code that a gateway on this machine answers."""
    hint = "start the gateway, or in that project: permission-ledger bridge claude --install --http"
    found = []
    for path in settings_file.installed_paths():
        with suppress(BridgeError):  # a file that is no settings any more has no hooks
            notes = CLAUDE.notes(path)
            found += [
                HealthFinding("claude hook", one.ok, f"{path}: {one.text}", None if one.ok else hint) for one in notes
            ]
    return found


def _space(servers: Sequence[Mapping[str, str]]) -> DiskSpace | None:
    folders = {Path(facts["config_dir"]) for facts in servers if "config_dir" in facts}
    found = [space for folder in folders if (space := space_of(folder)) is not None]
    return min(found, key=lambda space: space.free_bytes, default=None)


def _tell(output: CommandOutput, findings: list[HealthFinding]) -> int:
    if output.as_json:
        output.rows(finding.as_json() for finding in findings)
    else:
        output.table(COLUMNS, [(one.check, "yes" if one.ok else "NO", one.text, one.hint) for one in findings])
    bad = [one for one in findings if not one.ok]
    talk(f"{len(findings)} checks: " + (f"{len(bad)} found problems" if bad else "all is well"))
    return Exit.FINDINGS if bad else Exit.DONE
