"""Commands whose help ends in examples. Only click is imported: bridges start fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class DocumentedCommand(click.Command):
    """A command with examples. Every example must parse, which a test checks."""

    def __init__(self, name: str | None, *, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(name, **settings)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")
