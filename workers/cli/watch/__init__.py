"""`watch`: what waits for a person, live at a terminal, answered with a key."""

from workers.cli.watch.command import watch

__all__ = ["watch"]
