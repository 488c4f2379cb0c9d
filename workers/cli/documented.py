"""Commands whose help ends in examples. Nothing but click is imported: bridges start fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class DocumentedCommand(click.Command):
    """Every example must parse; a test sees to that."""

    def __init__(self, name: str | None, *, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(name, **settings)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")
