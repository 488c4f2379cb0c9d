"""The census of partitions: after a comparison of all their streams with the views, the feeds name all that is ahead."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from ledger.stores.port import Store


class Census:
    """A census that this process takes, of the partitions without one; any number of processes may take one at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = ""
        self._partitions: list[int] = []

    async def begin(self, partitions: Sequence[int]) -> None:
        """Begin before the first stream of these partitions is compared."""
        self._name = secrets.token_hex(8)
        self._partitions = await self._store.admin.uncounted(partitions)
        await self._store.admin.begin_census(self._partitions, self._name)

    async def end(self) -> None:
        """End after the last stream was compared, and projected if it was ahead."""
        # Those that another process has counted meanwhile stay so.
        missing = await self._store.admin.uncounted(self._partitions)
        await self._store.admin.end_census(missing, self._name)
        self._partitions = []

    async def doubt(self, gaps: Sequence[int]) -> None:
        """Withdraw the census where feeds were trimmed before they were read, and before their lines are taken.

        Once lines are taken, nothing shows any more that others were trimmed before them.
        """
        if gaps:
            await self._store.admin.withdraw_census(gaps)
