"""The files that the gateway wants hashed for a call, as they lie on this machine."""

from __future__ import annotations

from ledger.core.operand_files import operand_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ledger.core.regular_files import MayOpen


def hashed(wanted: object, may_open: MayOpen | None = None) -> list[dict[str, Any]]:
    """Return the operands for the gateway's list of wanted files. Never raises; ignores what it cannot read.

    A file that may not be opened is unreadable, whether it is there or not.
    """
    asked = list(_read(wanted))
    if may_open is None:
        return operand_rows(asked)
    opened = [([one for one in paths if may_open(one)], optional, glob) for paths, optional, glob in asked]
    rows = operand_rows(opened, may_open)
    closed = [path for paths, is_optional, _ in asked for path in paths[:1] if not (is_optional or may_open(path))]
    return [*rows, *({"path": path, "found": "unreadable"} for path in dict.fromkeys(closed))]


def are_unchanged(row: dict[str, Any], may_open: MayOpen | None = None) -> bool:
    """Return whether the files of a request's row lie on this machine as they did when it was asked. Never raises."""
    operands = (row.get("request") or {}).get("operands") or []
    now = hashed([{"paths": [one["path"]]} for one in operands], may_open)
    return [_identity(one) for one in now] == [_identity(one) for one in operands]


def _read(wanted: object) -> Iterator[tuple[list[str], bool, bool]]:
    for one in wanted if isinstance(wanted, list) else ():
        if isinstance(one, dict) and isinstance(one.get("paths"), list):
            paths = [path for path in one["paths"] if isinstance(path, str) and path.startswith("/")]
            yield paths, bool(one.get("is_optional")), bool(one.get("is_glob"))


def _identity(operand: dict[str, Any]) -> tuple[object, ...]:
    names = ("path", "sha256", "real", "size_bytes")
    return (operand.get("found") or "file", *(operand.get(name) for name in names))
