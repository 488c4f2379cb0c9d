"""Options of several commands: the index of requests, and the number of processes that share the work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

index_file_option: Final = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The index (default: PERMISSION_LEDGER_SEARCH, else search.sqlite in the data folder).",
)

JOBS_MAX: Final = 64

with_jobs: Final[Callable[[Callable[..., Any]], Callable[..., Any]]] = click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    metavar="N",
    help="Processes that share the work (default: one a core, as long as each has 2,000 streams).",
)
