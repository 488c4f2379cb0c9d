"""The entry point: `permission-ledger`, and `python -m permission_ledger`.

`ledger`, `projections` and `workers` are common names. A project that has a folder of one of these names on its path
(`PYTHONPATH=.`, an agent's hook, cron) must not be imported instead of ours, so the three resolve beside this file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["main", "run_module"]

PACKAGES: Final = frozenset({"ledger", "projections", "workers"})
_HERE: Final = [str(Path(__file__).resolve().parent)]


class _Beside:
    """A finder of the three packages. Their modules are found by the packages' own paths."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, _HERE, target) if name in PACKAGES else None


# Here and not in `main`: a process of a pool imports this module again, before it imports ours, and calls nothing of it.
if _Beside not in sys.meta_path:
    sys.meta_path.insert(0, _Beside)


def main() -> int:
    """Run the command line and return its exit code."""
    from workers.cli import main as run  # noqa: PLC0415 - resolved by the finder that was installed just now

    return run()


def run_module(name: str) -> None:
    """Run a module of the three packages as a program, with the arguments that follow in `sys.argv`."""
    import runpy  # noqa: PLC0415 - no command needs it

    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.exit(main())
