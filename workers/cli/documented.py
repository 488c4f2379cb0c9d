"""Commands whose help ends in examples. Only click is imported: bridges start fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class DocumentedCommand(click.Command):
    """A command with examples. Every example must parse, which a test checks."""

    def __init__(self, name: str | None, *, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(name, **settings)
        # Also without the context of a group: click keeps the option of the first context that it sees.
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])
        self.examples = tuple(examples)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the arguments, with defaults from the configuration files where the program runs as a whole."""
        if parent is not None and not extra.get("resilient_parsing"):
            path = (*parent.command_path.split()[1:], str(info_name))
            extra.setdefault("default_map", _defaults(path, self, args))
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")


def _defaults(path: tuple[str, ...], command: click.Command, args: Sequence[str]) -> dict[str, Any] | None:
    if path[0] in ("completion", "config", "hook", "init"):
        return None
    from workers.cli.config.places import files_are_read, is_anything_here  # noqa: PLC0415 - hooks need none

    if not files_are_read() or not is_anything_here():
        return None
    from workers.cli.config.applied import defaults  # noqa: PLC0415 - slow to import, and only files need it

    return defaults(path, command, args)
