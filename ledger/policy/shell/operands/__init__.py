"""The files that a shell line executes or reads as a program: its operands, before anybody looks at a disk.

`finder` walks the commands of a line, `reading` reads the words of one command by the table of its program
(`ledger/policy/shell/tables/operands.toml`), `values` and `places` give the variables and folders.
"""

from __future__ import annotations

from ledger.policy.shell.operands.finder import wanted_operands

__all__ = ["wanted_operands"]
