"""The options that bridges and hooks share, and what makes a function one of their commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from workers.bridges.hooks.settings import LIMIT_SECONDS
from workers.bridges.options import ON_UNREACHABLE, PROFILE_ALONE, PROFILES, BridgeOptions
from workers.cli.options import DocumentedCommand, deadline_options
from workers.transport.place import GRACE_SECONDS, BridgeError

Run = Callable[..., int | None]


class BridgeFailedError(click.ClickException):
    """Printed as one line, with the exit code of bad input."""


def bridge_command(
    name: str, *examples: str, dialect: str, other_dialects: Sequence[str] = (), **settings: Any
) -> Callable[[Run], DocumentedCommand]:
    """Make `function(options: BridgeOptions, **own)` a command with `--session`, `--project`, `--rules` and so on.

    With `other_dialects` the rules may be in one of those too (`--dialect`).
    """

    def decorate(function: Run) -> DocumentedCommand:
        @wraps(function)
        def run(**typed: Any) -> int | None:
            typed.setdefault("dialect", dialect)
            options = BridgeOptions(**{name: typed.pop(name) for name in BridgeOptions._fields})
            if options.profile is not None and options.rules is None:
                raise click.UsageError(PROFILE_ALONE)
            _check_deadlines(options)
            try:
                return function(options=options, **typed)
            except BridgeError as error:
                raise BridgeFailedError(error.text) from error

        made = click.command(name, cls=DocumentedCommand, examples=examples, **settings)(run)
        if other_dialects:
            known, text = click.Choice([dialect, *other_dialects]), "The dialect of the session's rules."
            made.params.append(click.Option(["--dialect"], type=known, default=dialect, show_default=True, help=text))
        made.params += common_options()
        return made

    return decorate


def limit_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--limit",
        type=click.FloatRange(1, 86400),
        default=LIMIT_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="The agent's own limit for the hook; a moment before it the answer is `still pending, ask again`.",
    )(function)


def _check_deadlines(options: BridgeOptions) -> None:
    """Raise BridgeFailedError for a duration that the gateway would refuse at the first request."""
    if not options.deadlines:
        return
    from ledger import InputError, Timeouts  # noqa: PLC0415 - slow to import, and rarely needed

    try:
        Timeouts().stated(options.deadlines, "--{}")
    except InputError as error:
        raise BridgeFailedError(error.text) from error


def common_options() -> list[click.Parameter]:
    return [
        click.Option(["--session"], metavar="ID", help="The ledger's session (default: the agent's own session id)."),
        click.Option(["--project"], metavar="NAME", help="Sessions of a project share grants (default: the folder)."),
        click.Option(
            ["--rules"], metavar="FILE", help="Judge by this file's rules, JSON (default: the gateway's own rules)."
        ),
        click.Option(
            ["--profile"],
            type=click.Choice(PROFILES),
            help="How the file of --rules is read: safer, or as the agent itself reads it (default: hardened).",
        ),
        click.Option(
            ["--on-unreachable"],
            type=click.Choice(ON_UNREACHABLE),
            default="deny",
            show_default=True,
            help="No gateway: deny, or leave it to the agent's own prompt.",
        ),
        click.Option(
            ["--grace"],
            type=click.FloatRange(0, 3600),
            default=GRACE_SECONDS,
            show_default=True,
            metavar="SECONDS",
            help="The time that a gateway may be away before that applies.",
        ),
        *deadline_options(),
    ]
