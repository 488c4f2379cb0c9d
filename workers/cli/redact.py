"""`redact`: content taken out of the log, of its views and of the servers' files."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import click
import msgspec

from ledger import DamageError, InputError
from ledger.core.times import parse_duration, parse_time
from ledger.log.redactions import PATTERN_CHARS_MAX, Pattern, Redactable, StreamPlan
from ledger.stores.port import FilesRewritten, StreamKey
from workers.cli.base import checked, command, local_actor, with_ledger
from workers.cli.output import CommandOutput, Exit, progress, talk
from workers.cli.tables import IdCell, Wide
from workers.upkeep.redactions import OUT_OF_REACH, Carried, carry_out, holds_over, notes_on, plan_json

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("stream", "version", "event", "request", Wide("why"), Wide("what goes"))

Unread: TypeAlias = dict[StreamKey, DamageError]

ALL: Final = "all"
FROM_STDIN: Final = "-"

NAMED_COUNT: Final = 20
"""The number of entries of a kind that are named one by one."""

_WHY: Final = {"named": "named", "matches": "matches", "same_request": "same request"}
_WHY_NOT: Final = {
    "payload": "in ids or names, which stay in the log for good",
    "access": "in a stream of access, which is not rewritten",
    "rules": "in rules, which sessions name; open these sessions again with other rules",
}


def _check(
    *,
    session: str | None,
    versions: Sequence[int],
    matching: str | None,
    since: str | None,
    project: str | None,
    reason: str | None,
    yes: bool,
    **_others: object,
) -> None:
    if (matching is None) == (not versions):
        raise click.UsageError("name a session and versions in it, or give --matching PATTERN")
    if versions and (project or since or session is None):
        raise click.UsageError("--since and --project go with --matching")
    if matching is not None and since is None:
        raise click.UsageError("say how far back to look, like --since 30d, or --since all")
    if yes and not reason:
        raise click.UsageError("give the reason with --reason TEXT: it is recorded")


@command(
    "permission-ledger redact ses_1 17",
    "permission-ledger redact ses_1 17 18 --reason 'a password in a command' --yes",
    "permission-ledger redact --matching 'hunter2-prod' --since 30d",
    "permission-ledger redact --matching - --since all --project shop --reason 'leaked key' --yes --json",
)
@click.argument("session", required=False)
@click.argument("versions", nargs=-1, type=click.IntRange(min=1), metavar="[VERSION]...")
@click.option(
    "--matching",
    metavar="PATTERN",
    help="Entries with this text in them; `regex:EXPRESSION` for a regular expression; `-` reads it from stdin, so that "
    "it is in no shell history.",
)
@click.option("--since", metavar="WHEN", help="How far back --matching looks: `30d`, an RFC 3339 time, or `all`.")
@click.option("--project", metavar="PROJECT", help="Look only into this project and its sessions.")
@click.option("--reason", metavar="TEXT", help="The reason, kept in the log.")
@click.option("--yes", is_flag=True, help="Do it. Without it nothing is changed, and what would go is listed.")
@checked(_check)
@with_ledger
async def redact(
    ledger: Ledger,
    output: CommandOutput,
    *,
    session: str | None,
    versions: Sequence[int],
    matching: str | None,
    since: str | None,
    project: str | None,
    reason: str | None,
    yes: bool,
) -> int:
    """Take content out of the log for good: of named entries, or of all in which a text is found.

    All entries of a request go together, and so do the grants that its answer made. Decisions, outcomes, names, ids and
    times stay, and `verify` still holds. Views, the servers' files and the archive's are written anew. A legal hold
    refuses it. The exit code is 11 if something is left that this command cannot take out or read; it names that, and
    goes on with the rest.
    """
    pattern = (
        None
        if matching is None
        else Pattern(sys.stdin.readline(PATTERN_CHARS_MAX + 2).rstrip("\r\n") if matching == FROM_STDIN else matching)
    )
    unread: Unread = {}
    if pattern is None:
        assert session is not None, "checked before"
        plans = await ledger.redactions.plan(session, versions)
    else:
        since_ms = await _since_ms(ledger, since or ALL)
        found = ledger.redactions.search(pattern, since_ms=since_ms, session=session, project=project, unread=unread)
        plans = [plan async for plan in found]
    if not yes:
        return _tell_plans(output, plans, unread, await holds_over(ledger, plans))
    assert reason is not None, "checked before"
    if pattern is not None and pattern.is_in(reason):
        raise InputError("the reason has in it what is to be redacted; it is recorded, so word it otherwise")
    with progress("streams", len(plans)) as advance:
        carried = await carry_out(ledger, plans, reason=reason, actor=local_actor(), done=advance)
    return _tell_carried(output, carried, unread)


async def _since_ms(ledger: Ledger, since: str) -> int:
    """Return the server time (ms) of `30d` ago, of an RFC 3339 time, or 0 for `all`. Raises InputError."""
    if since == ALL:
        return 0
    if "-" in since:
        return parse_time(since)
    duration_ms = parse_duration(since, "time to look back (--since)")
    return 0 if duration_ms is None else max(await ledger.store.now_ms() - duration_ms, 0)


# --- what is told ----------------------------------------------------------------------------------------------------


def _tell_plans(
    output: CommandOutput, plans: Sequence[StreamPlan], unread: Unread, holds: Mapping[StreamKey, str]
) -> int:
    if output.as_json:
        output.rows(plan_json(plan, held=holds.get(plan.key)) for plan in plans)
        _unread_rows(output, unread)
    else:
        rows = [_cells(plan, one) for plan in plans for one in plan.selection.goes]
        if rows:
            output.table(COLUMNS, rows)
        for plan in plans:
            for note in notes_on(plan):
                output.line(f"{plan.key.name}: {note}")
    count = sum(len(plan.versions) for plan in plans)
    streams = sum(bool(plan.versions) for plan in plans)
    _tell_stays(plans)
    for text in dict.fromkeys(holds.values()):
        talk(f"held: {text}")
    _tell_unread(unread)
    result = Exit.FINDINGS if unread else Exit.DONE
    if not count:
        talk("nothing is redacted: there is no such content" + (" in what could be read" if unread else ""))
        return result
    talk(
        f"nothing was changed: with --yes the content of {count} entries of {streams} streams goes, and never comes back"
    )
    _tell_out_of_reach()
    return result


def _unread_rows(output: CommandOutput, unread: Unread) -> None:
    output.rows({"stream": key.name, "unread": error.text} for key, error in unread.items())


def _tell_unread(unread: Unread) -> None:
    for number, error in enumerate(unread.values()):
        if number < NAMED_COUNT:
            talk(f"warning: not searched: {error.text}")
    if unread:
        talk(
            f"warning: INCOMPLETE: {len(unread)} streams could not be read, and may hold the content; bring the files "
            "back from a backup, or mend the streams (`permission-ledger verify --all`), and repeat the command"
        )


def _cells(plan: StreamPlan, one: Redactable) -> tuple[object, ...]:
    members = [f"{name}*" if name in one.matched else name for name in one.members]
    request = None if one.request_id is None else IdCell(one.request_id)
    return plan.key.name, one.version, one.type, request, _WHY[one.why], ", ".join(members) or "its salt"


def _tell_stays(plans: Sequence[StreamPlan]) -> None:
    counts: Counter[str] = Counter()
    for plan in plans:
        for one in plan.selection.stays:
            counts[one.why] += 1
            if counts[one.why] <= NAMED_COUNT:
                talk(
                    f"not redactable: {plan.key.name} version {one.version}, {', '.join(one.members)}: {_WHY_NOT[one.why]}"
                )
    for why, count in counts.items():
        if count > NAMED_COUNT:
            talk(f"not redactable: {count} entries in all {_WHY_NOT[why]}")


def _tell_carried(output: CommandOutput, carried: Carried, unread: Unread) -> int:
    if output.as_json:
        output.rows(plan_json(plan, versions) for plan, versions in carried.streams)
        _unread_rows(output, unread)
        output.row(
            {
                "files": msgspec.to_builtins(carried.files),
                "archived": [one.as_json() for one in carried.archived],
                "archive_failed": carried.archive_failed,
                "out_of_reach": list(OUT_OF_REACH),
            }
        )
    else:
        for plan, versions in carried.streams:
            if versions:
                output.line(f"{plan.key.name}: redacted {len(versions)} entries: {', '.join(map(str, versions))}")
            for note in notes_on(plan):
                output.line(f"{plan.key.name}: {note}")
    _tell_stays([plan for plan, _ in carried.streams])
    for one in carried.files:
        _tell_files(one)
    for file in carried.archived:
        if file.done == "kept":
            talk(f"warning: the archive's file `{file.file}` may still hold the content: {file.why}")
        else:
            talk(f"the archive's file `{file.file}` was {file.done}")
    if carried.archive_failed is not None:
        talk(f"warning: files of the archive may still hold the content; repeat the command: {carried.archive_failed}")
    _tell_unread(unread)
    _tell_out_of_reach()
    return Exit.DONE if carried.is_complete and not unread else Exit.FINDINGS


def _tell_files(one: FilesRewritten) -> None:
    parts = (
        ("append-only file", one.append_only_file, "BGREWRITEAOF"),
        ("snapshot", one.snapshot_file, "BGSAVE"),
        ("slow log", one.slow_log, "SLOWLOG RESET"),
    )
    for what, told, remedy in parts:
        if told not in ("done", "off"):
            talk(f"warning: {one.server}: {what}: {told}; the content may still be there: run {remedy} on it")
    for replica in one.replicas:
        talk(f"warning: replica {replica}: its files may still hold the content: run BGREWRITEAOF and BGSAVE on it")


def _tell_out_of_reach() -> None:
    for place in OUT_OF_REACH:
        talk(f"out of reach: {place}")
