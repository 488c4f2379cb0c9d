"""The option for the number of processes that share a command's work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

JOBS_MAX: Final = 64

with_jobs: Final[Callable[[Callable[..., Any]], Callable[..., Any]]] = click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    metavar="N",
    help="Processes that share the work (default: one a core, as long as each has 2,000 streams).",
)
