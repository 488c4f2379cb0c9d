"""`verify`: every entry of one or all sessions, checked against the chain and the server's own reports.

A file of heads, the last entry of each stream at one time, proves a cut or rewritten end if it is kept elsewhere. So does
a list of passkeys for signed answers. With `--judge` the evaluations are made again from the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import click
import msgspec

from ledger import DamageError, Ledger, UnknownSessionError
from ledger.access.passkeys import Passkey
from ledger.core.errors import InputError
from ledger.core.events import Actor
from ledger.core.ids import check_id
from ledger.core.regular_files import private_file, read_regular
from ledger.core.times import parse_time
from ledger.log.archive.archive import all_streams, archive_of
from ledger.log.judgements import judge_again
from ledger.log.verify import Head
from ledger.policy.consulted import ReplayedPolicies
from ledger.session.judged_again import DIFFERENT, NOT_DECIDABLE, SAME
from ledger.stores.port import Position, StreamKey
from workers.cli.base import command, with_ledger
from workers.cli.options import with_jobs
from workers.cli.output import CommandOutput, Exit, progress, talk
from workers.cli.tables import Wide
from workers.presentation.text import json_line
from workers.upkeep.stream_checks import Checked, Depth, StreamChecker, read_anchors
from workers.upkeep.works import check_streams, portions_to_check, processes_for, results_of

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 512 * 1024 * 1024
"""The size limit: at about 150 bytes a head, three million streams."""

_HEADER: Final = "permission-ledger heads"


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    format: int


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    stream: Annotated[str, msgspec.Meta(pattern="^(session|project|access|policy):.")]
    id: Annotated[str, msgspec.Meta(pattern="^[0-9]+-[0-9]+$")]
    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


def write_heads(file: Path, heads: Iterable[tuple[StreamKey, Head]]) -> None:
    """Write one JSON object a line, a header first. Raises InputError."""
    rows: list[Mapping[str, Any]] = [{"file": _HEADER, "format": FORMAT}]
    rows += [{"stream": key.name, "id": str(head.position), "hash": head.hash} for key, head in heads]
    try:
        # The old file may be the only proof of an end that is cut off by now: it stays until the new one is complete.
        with private_file(file) as written:
            written.writelines(f"{json_line(row)}\n".encode() for row in rows)
    except OSError as error:
        raise InputError(f"`{file}` cannot be written: {error.strerror}") from error


def read_heads(file: Path) -> dict[StreamKey, Head]:
    """Read a file of heads. Raises InputError with the number of the wrong line."""
    try:
        lines = read_regular(file, FILE_BYTES_MAX).splitlines()
    except OSError as error:
        raise InputError(f"`{file}` cannot be read: {error.strerror}") from error
    _check_header(file, lines[0] if lines else b"")
    return dict(_read_line(file, number, text) for number, text in enumerate(lines[1:], 2))


def _check_header(file: Path, text: bytes) -> None:
    try:
        header = msgspec.json.decode(text, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{file}` is not a file of heads: {error}") from error
    if header.file != _HEADER or header.format != FORMAT:
        raise InputError(f"`{file}` is not a file of heads that this version can read")


def _read_line(file: Path, number: int, text: bytes) -> tuple[StreamKey, Head]:
    try:
        line = msgspec.json.decode(text, type=_Line)
        return StreamKey.parse(line.stream), Head(Position.parse(line.id), line.hash)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"`{file}` line {number}: {error}") from error


class SessionJudge:
    """Judges sessions one after the other; counts their evaluations by result, and keeps those that are not the same."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._policies = ReplayedPolicies()
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        """One for each event that is not the same."""

    async def of(self, checked: Checked) -> dict[str, Any] | None:
        """Judge every evaluation of a session again; None for another stream, and for a damaged one."""
        if checked.key.kind != "session" or not checked.ok:
            return None
        session = checked.key.id
        try:
            judged = [one async for one in judge_again(self._ledger.store, session, policies=self._policies)]
        except DamageError:  # of the project's stream, whose own check reports it
            return None
        counts = Counter(one.result for one in judged)
        others = [one for one in judged if one.result != SAME]
        self.counts += counts
        self.lines += [
            f"{one.result.replace('_', ' ')}: session {session}, version {one.version} "
            f"({one.type} {one.request_id}): {one.reason}"
            for one in others
        ]
        found = {result: counts[result] for result in (SAME, DIFFERENT, NOT_DECIDABLE)}
        return {**found, "events": msgspec.to_builtins(others)}

    @property
    def summary(self) -> str:
        same, different, not_decidable = (self.counts[one] for one in (SAME, DIFFERENT, NOT_DECIDABLE))
        return (
            f"{same + different + not_decidable} evaluations judged again: "
            f"{same} same, {different} different, {not_decidable} not decidable"
        )


class _PasskeyLine(msgspec.Struct):
    """A row of `passkey list --json`, with the members needed here."""

    credential_id: str
    person: str
    public_key: str
    rp_id: str
    name: str = ""
    removed_at: str | None = None


def read_passkeys(file: Path) -> dict[str, Passkey]:
    """Return the passkeys of a file by their ids. Raises InputError with the number of the wrong line."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"`{file}` cannot be read: {error.strerror}") from error
    found = [_read(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return {passkey.credential_id: passkey for passkey in found}


def _read(file: Path, number: int, text: bytes) -> Passkey:
    try:
        line = msgspec.json.decode(text, type=_PasskeyLine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"`{file}` line {number} is not a passkey: {error}; write the file with `passkey list --all --json`"
        ) from error
    return Passkey(
        credential_id=line.credential_id,
        person=line.person,
        name=line.name,
        public_key=line.public_key,
        rp_id=line.rp_id,
        by=Actor("local", str(file)),
        at_ms=0,
        removed_ms=None if line.removed_at is None else parse_time(line.removed_at),
    )


_OF_HEADS: Final = {"truncated", "rewritten"}

NAMED_COUNT: Final = 5
"""The number of streams named in a message; the rest are counted."""

WITHOUT_HEADS: Final = (
    "note: this shows the log agrees with itself, not that nobody rewrote it whole; "
    "compare with heads kept on another machine (--checkpoint)"
)

UNNAMED: Final = (
    "{count} grants and tokens name no answer and no token that made them: commands on the ledger's own machine did, the "
    "sign-in at a provider, an import, or whoever writes on the server"
)

COLUMNS = ("stream", "ok", "versions", "head", Wide("what is wrong"))


@command(
    "permission-ledger verify ses_1",
    "permission-ledger verify --all --save heads.jsonl",
    "permission-ledger verify --all --checkpoint heads.jsonl --save heads.jsonl",
    "permission-ledger verify --all --checkpoint heads.jsonl --json",
    "permission-ledger verify --all --passkeys passkeys.jsonl",
    "permission-ledger verify --all --deep --jobs 2",
    "permission-ledger verify ses_1 --judge",
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--all", "everything", is_flag=True, help="Every stream: sessions, projects, rules and access tokens.")
@click.option(
    "--checkpoint",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compare with the heads that --save wrote: the only way to see that an end was cut off.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the heads of the streams that are whole, to be kept on another machine; a stream that is not keeps its "
    "head of --checkpoint. A file that is there is compared with first, and stays as it is if the log contradicts it "
    "(exit code 11).",
)
@click.option(
    "--restored",
    is_flag=True,
    help="Do not compare access tokens with --checkpoint: this ledger was restored from an export, which has none.",
)
@click.option(
    "--passkeys",
    "kept_passkeys",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Trust these passkeys alone, as `passkey list --json` wrote them: the only way to see that one was enrolled by "
    "whoever writes on the server.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Read every event and its content, too, and fold each stream to its state; takes several times as long.",
)
@with_jobs
@click.option(
    "--judge",
    is_flag=True,
    help="Judge every recorded evaluation again, from the log alone: same, different, or not decidable.",
)
@with_ledger
async def verify(
    ledger: Ledger,
    output: CommandOutput,
    *,
    sessions: Sequence[str],
    everything: bool,
    checkpoint: Path | None,
    save: Path | None,
    restored: bool,
    kept_passkeys: Path | None,
    deep: bool,
    jobs: int | None,
    judge: bool,
) -> int:
    """Check that no event of a session was changed, lost, put in, moved or re-dated, nor of its project's grants.

    Answers that a passkey signed, or should have, are held against the passkeys that are registered. With --judge, a
    verdict that comes out differently by the rules, grants and facts of its time is a finding, too (exit code 11).
    """
    if everything == bool(sessions):
        raise click.UsageError("name sessions, or give --all")
    known = _known(checkpoint, save, restored=restored)
    kept = None if kept_passkeys is None else read_passkeys(kept_passkeys)
    depth: Depth = "folds" if deep else "chain"
    shown = _Shown(output, SessionJudge(ledger) if judge else None, keeps_heads=save is not None)
    if everything:
        found = {key async for key in all_streams(ledger.store)}
        keys = await archive_of(ledger.store).in_file_order({*found, *known})
        check, portions = partial(check_streams, depth, kept), portions_to_check(keys, known)
        with progress("streams", len(keys)) as advance:
            async for checked in results_of(check, ledger, portions, processes_for(jobs, len(keys))):
                for one in checked:
                    await shown.add(one)
                advance(len(checked))
    else:
        keys = [StreamKey("session", check_id(session, "session id")) for session in sessions]
        checker = StreamChecker(ledger.store, known, await read_anchors(ledger.store, kept), depth)
        await _check_named(checker, keys, known, shown)
    code = shown.tell(in_order=everything)
    if not known:
        talk(WITHOUT_HEADS)
    if save and (some := shown.contradicting(known)):
        names = f"{', '.join(some[:NAMED_COUNT])}{' …' if len(some) > NAMED_COUNT else ''}"
        talk(f"`{save}` was not written: the log contradicts the saved heads of {len(some)} streams: {names}")
        talk(
            "hint: keep the saved heads; after a restore to an earlier state, --save to a new file without --checkpoint"
        )
    elif save:
        # A stream that was not checked, or is damaged, keeps its head, so that the next check finds the damage too.
        write_heads(save, sorted({**known, **shown.heads}.items()))
    return code


def _known(checkpoint: Path | None, save: Path | None, *, restored: bool) -> dict[StreamKey, Head]:
    """Return the heads to compare with: no file of heads is written over without that. Raises InputError."""
    if checkpoint is None and restored:
        raise click.UsageError("--restored says what not to compare with --checkpoint; give that too")
    saved = read_heads(save) if save is not None and save.exists() else {}
    heads = saved if checkpoint is None else read_heads(checkpoint)
    if not saved.items() <= heads.items():
        text = f"`{save}` has heads that `{checkpoint}` has not, and would be overwritten"
        raise InputError(f"{text}; give it as --checkpoint, or --save to a new file")
    return {key: head for key, head in heads.items() if not (restored and key.kind == "access")}


_Row: TypeAlias = tuple[object, ...]


class _Shown:
    """The results so far. Rows for a program are printed at once; a person's table needs all of them.

    Of a million streams no more is held than is told at the end.
    """

    def __init__(self, output: CommandOutput, judging: SessionJudge | None, *, keeps_heads: bool) -> None:
        self.judging = judging
        self.heads: dict[StreamKey, Head] = {}
        """The heads of whole streams, if they are to be kept."""
        self._output = output
        self._keeps_heads = keeps_heads
        self._lines: list[tuple[StreamKey, list[_Row]]] = []
        self._bad: list[Checked] = []
        self._streams = self._versions = self._redacted = self._unnamed = 0

    async def add(self, one: Checked) -> None:
        self._streams += 1
        self._versions += one.versions
        self._redacted += one.redacted_count
        self._unnamed += one.unnamed_count
        if not one.ok:
            self._bad.append(one)
        elif self._keeps_heads and one.head is not None:
            self.heads[one.key] = one.head
        judged = None if self.judging is None else await self.judging.of(one)
        if self._output.as_json:
            self._output.row({**_json(one), **({} if judged is None else {"judged": judged})})
        else:
            self._lines.append((one.key, _rows(one)))

    def contradicting(self, known: Mapping[StreamKey, Head]) -> list[str]:
        """Return the names of the streams that end or read otherwise than the heads kept from before."""
        return sorted(one.key.name for one in self._bad if one.key in known and _is_of_heads(one))

    def tell(self, *, in_order: bool) -> int:
        """Print the table and the sums; return the exit code. `in_order`: the table is sorted by stream."""
        if self._lines:
            lines = sorted(self._lines, key=lambda line: line[0]) if in_order else self._lines
            self._output.table(COLUMNS, [row for _, rows in lines for row in rows])
            for text in () if self.judging is None else self.judging.lines:
                self._output.line(text)
        redacted = f", {self._redacted} of them redacted" if self._redacted else ""
        found = f"{len(self._bad)} damaged" if self._bad else "all is well"
        talk(f"{self._versions} events of {self._streams} streams checked{redacted}: {found}")
        if self._unnamed:
            talk(UNNAMED.format(count=self._unnamed))
        if self.judging is not None:
            talk(self.judging.summary)
        if any(one.key.kind == "access" and _is_of_heads(one) for one in self._bad):
            talk("hint: an export holds no access tokens; if this ledger was restored from one, give --restored")
        differs = self.judging is not None and bool(self.judging.counts[DIFFERENT])
        return Exit.FINDINGS if self._bad or differs else Exit.DONE


async def _check_named(
    checker: StreamChecker, keys: Sequence[StreamKey], known: dict[StreamKey, Head], shown: _Shown
) -> None:
    waiting = dict.fromkeys(keys)
    done: set[StreamKey] = set()
    with progress("streams", len(waiting)) as advance:
        while waiting:
            key = next(iter(waiting))
            del waiting[key]
            done.add(key)
            one = await checker.check(key)
            if not one.is_there and key not in known:
                if key.kind != "session":
                    continue
                raise UnknownSessionError(f"there is no session `{key.id}`", session=key.id)
            await shown.add(one)
            if one.project and (project := StreamKey("project", one.project)) not in done:
                waiting[project] = None
            waiting.update(
                {key: None for one_digest in one.rules if (key := StreamKey("policy", one_digest)) not in done}
            )
            advance(1)


def _is_of_heads(one: Checked) -> bool:
    return any(problem.kind in _OF_HEADS for problem in one.problems)


def _json(one: Checked) -> dict[str, Any]:
    return {
        "session": one.key.id if one.key.kind == "session" else None,
        "ok": one.ok,
        "versions": one.versions,
        "head": None if one.head is None else {"id": str(one.head.position), "hash": one.head.hash},
        "problems": msgspec.to_builtins(one.problems),
        "project": one.key.id if one.key.kind == "project" else one.project,
        "stream": one.key.name,
        **({"redacted": one.redacted_count} if one.redacted_count else {}),
        **({"unnamed": one.unnamed_count} if one.unnamed_count else {}),
    }


def _rows(one: Checked) -> list[_Row]:
    head = None if one.head is None else f"{one.head.position} {one.head.hash[:12]}"
    texts = [f"{problem.kind}: {problem.text}" for problem in one.problems] or [""]
    first = (one.key.name, "yes" if one.ok else "no", one.versions, head, texts[0])
    return [first, *(("", "", "", "", text) for text in texts[1:])]
