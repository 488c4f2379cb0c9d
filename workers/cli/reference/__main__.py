"""Print the page."""

from __future__ import annotations

from workers.cli.reference import reference

print(reference(), end="")
