"""`--attended` and `--unattended`, the time limits of requests, and the limits of runs. Only click is imported: bridges start fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

_HELP: Final = {
    "--attended": "Time for an answer while somebody is there (60s).",
    "--unattended": "Time for an answer otherwise (7d).",
}

_RUN_HELP: Final = {
    "--approval-lifetime": "Time within which an answered call must begin; later it asks again (default: no limit).",
    "--claim-timeout": "Time after which a claim without a recorded end is ended (default: 1h).",
}


def deadline_options() -> list[click.Parameter]:
    """Return the options as parameters of a command."""
    return [click.Option([name], metavar="DURATION", help=text) for name, text in _HELP.items()]


def with_deadlines(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options as the arguments `attended` and `unattended`, each a text or None."""
    for name, text in reversed(_HELP.items()):
        function = click.option(name, metavar="DURATION", help=text)(function)
    return function


def with_run_limits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options as the arguments `approval_lifetime` and `claim_timeout`, each a text or None."""
    for name, text in reversed(_RUN_HELP.items()):
        function = click.option(name, metavar="DURATION", help=text)(function)
    return function
