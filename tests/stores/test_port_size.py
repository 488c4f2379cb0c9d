"""The size of the port: whoever writes a store of another kind writes so many operations."""

from __future__ import annotations

from typing import Final

from ledger.stores.store import Store

OPERATIONS_MAX: Final = 45
"""Properties count, too. An answer that is an object with further operations would be a second port."""


def test_the_port_has_few_operations() -> None:
    operations = sorted(name for name in vars(Store) if not name.startswith("_"))
    assert len(operations) <= OPERATIONS_MAX, operations
