"""The option that names the index of requests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

index_file_option: Final = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The index (default: PERMISSION_LEDGER_SEARCH, else search.sqlite in the data folder).",
)
