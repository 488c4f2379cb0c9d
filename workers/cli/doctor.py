"""`doctor`: the server, what would lose data, the workers, the streams."""

from __future__ import annotations

import time
from typing import Final

import click

from ledger import Ledger
from ledger.errors import SetupError
from workers.cli.base import command, run_async
from workers.cli.exits import Exit
from workers.cli.output import Output, talk
from workers.health import SAMPLE_COUNT, Finding, check_deployment, check_server_facts

COLUMNS = ("check", "ok", "what was found", "what to do")

MS_PER_NS: Final = 1_000_000


@command(
    examples=(
        "permission-ledger doctor",
        "permission-ledger doctor --deep --json",
    )
)
@click.option("--deep", is_flag=True, help=f"Verify every stream, not only {SAMPLE_COUNT} of them.")
def doctor(*, url: str | None, as_json: bool, deep: bool) -> int | None:
    """Check the server and the workers, and say what would lose data or keep people waiting."""

    async def examined() -> int:
        try:
            findings = await _examine(url, deep=deep)
        except SetupError as error:
            findings = [Finding("server", False, error.text, "change the server's settings, or use another")]
        return _tell(Output(as_json=as_json), findings)

    return run_async(examined)


async def _examine(url: str | None, *, deep: bool) -> list[Finding]:
    async with Ledger.connect(url) as ledger:
        before_ms = time.time_ns() // MS_PER_NS
        server_ms = await ledger.store.now_ms()
        after_ms = time.time_ns() // MS_PER_NS
        # The server looked at its clock somewhere in between.
        skew_ms = server_ms - (before_ms + after_ms) // 2
        servers = await ledger.store.admin.facts_of_each_server()
        # The primaries of a cluster mostly say the same; each thing is told once.
        demanded = ledger.store.durability
        findings = list(dict.fromkeys(one for facts in servers for one in check_server_facts(facts, skew_ms, demanded)))
        return findings + await check_deployment(ledger.store, deep=deep)


def _tell(output: Output, findings: list[Finding]) -> int:
    if output.as_json:
        output.rows(finding.as_json() for finding in findings)
    else:
        output.table(COLUMNS, [(one.check, "yes" if one.ok else "NO", one.text, one.hint) for one in findings])
    bad = [one for one in findings if not one.ok]
    talk(f"{len(findings)} checks: " + (f"{len(bad)} found something" if bad else "all is well"))
    return Exit.FINDINGS if bad else Exit.DONE
