"""Shared by all commands: options, the open ledger, parsers, lists in pages, and errors as messages and exit codes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ledger.core import errors
from ledger.core.errors import InputError, LedgerError
from ledger.core.events import Actor
from ledger.core.requests import check_name
from ledger.core.times import SECOND_MS, parse_duration
from ledger.stores.embedded.errors import NoServerBinaryError
from workers.cli.completion import complete_ids
from workers.cli.options import DocumentedCommand
from workers.cli.output import CommandOutput, Exit, GrowingTable
from workers.runtime.logs import CONNECTION

if TYPE_CHECKING:
    from ledger.log.surveys import ListPage, StreamProblem

_EXITS: Final[dict[type[errors.LedgerError], Exit]] = {
    errors.InputError: Exit.BAD_INPUT,
    errors.DeniedError: Exit.DENIED,
    errors.RejectedError: Exit.REJECTED,
    errors.ExpiredError: Exit.EXPIRED,
    errors.CancelledError: Exit.CANCELLED,
    errors.StillPendingError: Exit.PENDING,
    errors.ReopenedError: Exit.PENDING,
    errors.AlreadyClaimedError: Exit.CLAIMED,
    errors.FrozenError: Exit.FROZEN,
    errors.RedactedError: Exit.BAD_INPUT,
    errors.SealedError: Exit.BAD_INPUT,
    errors.UnknownRequestError: Exit.UNKNOWN,
    errors.UnknownGrantError: Exit.UNKNOWN,
    errors.UnknownSessionError: Exit.UNKNOWN,
    errors.UnknownTokenError: Exit.UNKNOWN,
    errors.UnknownPasskeyError: Exit.UNKNOWN,
    errors.UnknownDeviceError: Exit.UNKNOWN,
    errors.AlreadyAnsweredError: Exit.ANSWERED_OTHERWISE,
    errors.StaleReplyError: Exit.EXPIRED,
    errors.NotExtendableError: Exit.BAD_INPUT,
    errors.NoInputLockError: Exit.BAD_INPUT,
    errors.UnauthorizedError: Exit.BAD_INPUT,
    errors.DemandNotMetError: Exit.BAD_INPUT,
    errors.PasskeyRefusedError: Exit.BAD_INPUT,
    errors.DigestMismatchError: Exit.BAD_INPUT,
    errors.EditDeniedError: Exit.DENIED,
    errors.WiderError: Exit.BAD_INPUT,
    errors.NotCoveredError: Exit.BAD_INPUT,
    errors.SessionClosedError: Exit.CANCELLED,
    errors.SetupError: Exit.BAD_INPUT,
    errors.StoreError: Exit.UNREACHABLE,
    errors.ArchiveError: Exit.UNREACHABLE,
    errors.NewerSchemaError: Exit.BAD_INPUT,
    errors.DamageError: Exit.FINDINGS,
    NoServerBinaryError: Exit.BAD_INPUT,
}

_HINTS: Final = {
    "UNREACHABLE": "without --url and PERMISSION_LEDGER_URL an embedded server is used",
    "IN_DOUBT": "ask again with the same request id (--id): it attaches to what was written",
    "SETUP": "`permission-ledger doctor` says what the server needs",
    "UNKNOWN_REQUEST": "`permission-ledger pending` lists what waits",
    "UNKNOWN_SESSION": "`permission-ledger sessions` lists them",
    "UNKNOWN_TOKEN": "`permission-ledger token list` lists them",
    "UNKNOWN_GRANT": "`permission-ledger approved` lists the grants in force",
    "DIFFERENT_REQUEST": "leave --id out, or give the same permission, patterns and metadata as before",
    "REOPENED": "ask again with the same request id, or answer it: `permission-ledger pending` shows why it is back",
    "ALREADY_CLAIMED": "`show` of its session says whether it may have run; a new request id asks again",
    "DIGEST_MISMATCH": "`permission-ledger pending --json` shows what is pending, and its digest",
    "NOT_EXTENDABLE": "answer it, or have it asked again; `permission-ledger pending` shows its deadline",
    "FROZEN": "`permission-ledger freeze --list` shows it; `permission-ledger unfreeze` ends it",
    "ON_HOLD": "`permission-ledger hold --list` shows it; `unhold` lifts it",
    "SEALED": "its events are in the archive; bring the session back first",
    "SESSION_CLOSED": "go on in another session",
    "DAMAGED": "`permission-ledger verify --all` says which events are wrong",
    "RULES_UNREADABLE": "open the session again with its rules, or import them from an export",
    "NEWER_SCHEMA": "upgrade this installation of permission-ledger",
}


def exit_of(error: errors.LedgerError) -> Exit:
    """Return the exit code of the nearest class in the table; an unlisted error is our fault."""
    return next((_EXITS[known] for known in type(error).__mro__ if known in _EXITS), Exit.OUR_FAULT)


def tell(error: errors.LedgerError, *, as_json: bool = False) -> Exit:
    """Print the error on stderr: `error:` and `hint:` lines, or one JSON object; return the exit code."""
    hint = error.data.get("hint") or _HINTS.get(error.code)
    lines = [f"error: {error.text}", *([f"hint: {hint}"] if hint else [])]
    CommandOutput(as_json=as_json).aside({**error.as_json(), **({"hint": hint} if hint else {})}, *lines)
    return exit_of(error)


LOCAL = "local"
"""The kind of actor for commands on a machine that reaches the server itself."""

COLLECTOR_SECONDS = 1.0
"""The time before the garbage collector begins: it takes a tenth of a short command, and finds nothing."""

Run = Callable[..., int | None]


class LedgerCommand(DocumentedCommand):
    """A command whose ledger errors become a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        except LedgerError as error:
            return tell(error, as_json=bool(ctx.params.get("as_json")))
        except BaseExceptionGroup as group:
            inside = _ledger_error_in(group)
            if inside is None:
                raise
            return tell(inside, as_json=bool(ctx.params.get("as_json")))


def _ledger_error_in(group: BaseExceptionGroup[BaseException]) -> LedgerError | None:
    ours, others = group.split(LedgerError)
    if others is not None:
        return None
    found: BaseException | None = ours
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found if isinstance(found, LedgerError) else None


_URL: Final = "The ledger's server (default: PERMISSION_LEDGER_URL, else the embedded server of the data folder)."


def command(
    *examples: str, name: str | None = None, with_json: bool = True, with_url: bool = True, **settings: Any
) -> Callable[[Run], LedgerCommand]:
    """Make a function a command with `--url` (as `url`) and `--json` (as `as_json`); its int is the exit code.

    The first paragraph of its docstring is the help. Every example must parse, which a test checks.
    """

    def decorate(function: Run) -> LedgerCommand:
        made = click.command(name, cls=LedgerCommand, examples=examples, **settings)(function)
        # Added here, they stand after the command's own options in the help.
        made.params += [
            *([json_option()] if with_json else []),
            *([click.Option(["--url"], metavar="URL", help=_URL)] if with_url else []),
        ]
        complete_ids(made)
        return made

    return decorate


def json_option() -> click.Option:
    return click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object a line.")


def with_ledger(function: Callable[..., Awaitable[int | None]], *, asks: bool = False) -> Run:
    """Run a coroutine function as `function(ledger, output, **options)`, the ledger open at `--url`.

    `asks`: the function asks, so the deciders of installed distributions are heard; others load none.
    """

    @wraps(function)
    def run(*, url: str | None, as_json: bool = False, utc: bool = False, **options: Any) -> int | None:
        async def with_open_ledger() -> int | None:
            from ledger import Ledger  # noqa: PLC0415 - help and errors of usage need none

            async with Ledger.connect(url, entry_points=asks) as ledger:
                output = CommandOutput(as_json=as_json, utc=utc, now_ms=ledger.store.clock.now_ms)
                from workers.cli.ids import whole_ids  # noqa: PLC0415 - as above

                return await function(ledger, output, **(options if asks else await whole_ids(ledger, output, options)))

        return run_async(with_open_ledger, as_json=as_json)

    return run


def checked(check: Callable[..., object]) -> Callable[[Run], Run]:
    """Call `check(**options)` first: invalid options are reported before a server is reached or started."""

    def decorate(function: Run) -> Run:
        @wraps(function)
        def run(**options: Any) -> int | None:
            check(**options)
            return function(**options)

        return run

    return decorate


def run_async(main: Callable[[], Awaitable[int | None]], *, as_json: bool = False) -> int | None:
    """Run a coroutine function in an event loop of its own, with the ledger's log on stderr."""
    tell_logs(as_json=as_json)

    async def awaited() -> int | None:
        asyncio.get_running_loop().call_later(COLLECTOR_SECONDS, gc.enable)
        return await main()

    gc.disable()
    try:
        return asyncio.run(awaited())
    finally:
        gc.enable()


def tell_logs(*, as_json: bool = False) -> None:
    """Print log records from level warning as lines on stderr, in JSON as `{"warning": text}`."""
    root = logging.getLogger()
    handler = next((one for one in root.handlers if isinstance(one, _Talking)), None)
    if handler is None:
        handler = _Talking()
        root.addHandler(handler)
    handler.as_json = as_json
    root.setLevel(logging.WARNING)
    # A command that waits for an answer retries by itself; a worker's log holds the outage.
    logging.getLogger(CONNECTION).setLevel(logging.ERROR)


class _Talking(logging.Handler):
    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        level, text = record.levelname.lower(), record.getMessage()
        CommandOutput(as_json=self.as_json).aside({level: text}, f"{level}: {text}")


def local_actor(name: str | None = None) -> Actor:
    """Return the actor who typed the command: `user@host` unless `--as` is given. Raises InputError."""
    from ledger.client.machine import default_actor_name  # noqa: PLC0415 - as above

    return Actor(LOCAL, default_actor_name() if name is None else check_name(name, "name (--as)"))


def require_reason(*, reason: str | None, lists: bool, **_others: object) -> None:
    """Raise UsageError for a change without a reason; `lists` changes nothing. For `checked`."""
    if not (reason or lists):
        raise click.UsageError("give the reason with --reason TEXT")


def json_object(text: str | None, option: str) -> dict[str, Any] | None:
    """Return the JSON object in an option. Raises InputError."""
    if text is None:
        return None
    try:
        value = json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option} `{_shortened(text)}` is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f'{option} `{_shortened(text)}` is not a JSON object; write it like `{{"key": "value"}}`')
    return value


def seconds(text: str | None, option: str) -> float | None:
    """Return an option's duration in seconds; None for `none` or without the option. Raises InputError."""
    ms = None if text is None else parse_duration(text, option)
    return None if ms is None else ms / SECOND_MS


def version_or_time(text: str | None) -> int | str | None:
    """Return a version if the text is all digits; else the text of a time, which its reader checks."""
    if text is None or not (text.isascii() and text.isdecimal()):
        return text
    if len(text) > 15:
        raise InputError(f"there is no version `{_shortened(text)}`")
    return int(text)


def no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _shortened(text: str, most_chars: int = 60) -> str:
    return text if len(text) <= most_chars else f"{text[:most_chars]}…"


PAGE_COUNT: Final = 50
LIMIT_MAX: Final = 100_000
TABLE_COUNT: Final = 1000
"""Rows of one table: the columns are as wide as their cells, so a table is in memory."""

READ_COUNT: Final = 500
"""Rows read at once."""

R = TypeVar("R")

PagesOf = AsyncIterator[tuple[str, R]]
"""Rows, each with the cursor of what follows it."""

Pages = PagesOf[Mapping[str, Any]]
"""Rows that are printed with `--json` as they are."""


def limited(function: Run) -> Run:
    """Add `--limit` and `--after`; without `--limit` a list is shown whole."""
    return _limited(function, "all")


utc_option: Final = click.option("--utc", is_flag=True, help="Whole times on a terminal, too, in UTC.")


def paged(function: Run) -> Run:
    """Add `--limit`, `--after` and `--all` (as `everything`)."""
    every = click.option("--all", "everything", is_flag=True, help="All of them, as they are read.")
    return _limited(every(function), f"{PAGE_COUNT}; with --json: all")


def _limited(function: Run, default: str) -> Run:
    after = click.option("--after", metavar="CURSOR", help="Go on after a page: with the cursor that it ended with.")
    text = f"The number of rows (default: {default})."
    limit = click.option("--limit", type=click.IntRange(1, LIMIT_MAX), metavar="COUNT", help=text)
    return limit(after(utc_option(function)))


async def rows_of(pages: AsyncIterator[ListPage[R]], problems: list[StreamProblem]) -> PagesOf[R]:
    """Iterate over the cursors and rows of pages; note what is wrong with streams."""
    async for page in pages:
        problems += page.problems
        for one in page.rows:
            yield one.cursor, one.row


def check_page(*, limit: int | None, everything: bool, **_others: object) -> None:
    if everything and limit is not None:
        raise click.UsageError("give --limit COUNT or --all, not both")


def page_count(output: CommandOutput, limit: int | None, *, everything: bool) -> int | None:
    """Return the number of rows to show; None is all."""
    return limit if limit is not None else None if everything or output.as_json else PAGE_COUNT


def read_count(count: int | None) -> int:
    """Return the number of rows to read at once: one more than are shown tells whether there are others."""
    return READ_COUNT if count is None else min(count + 1, READ_COUNT)


async def print_pages(
    output: CommandOutput,
    rows: PagesOf[R],
    count: int | None,
    columns: Sequence[str],
    cells: Callable[[R], Sequence[object]],
    *,
    as_row: Callable[[R], Mapping[str, Any]] = lambda row: row,  # type: ignore[assignment,return-value]
) -> int:
    """Print at most `count` rows as they come, and how to go on; return the number of rows."""
    shown, cursor = 0, ""
    table = GrowingTable(output, columns, cells, as_row)
    async for place, row in rows:
        if shown == count:
            table.end()
            tell_next(output, cursor)
            return shown
        shown, cursor = shown + 1, place
        table.add(row)
        if shown % TABLE_COUNT == 0:
            table.end()
    table.end()
    return shown


def tell_next(output: CommandOutput, cursor: str) -> None:
    """Tell the cursor after which the next page begins."""
    output.aside({"cursor": cursor}, f"there are more: repeat it with `--after {cursor}`")
