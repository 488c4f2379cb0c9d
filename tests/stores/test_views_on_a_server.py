"""Keys of views that only a real server shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ledger.stores import keys
from ledger.stores.port import START, ViewWrite
from ledger.stores.redis.store import RedisStore
from tests.support.backends import SESSION, at
from tests.support.store_calls import checkpoint, project, view_field

LISTED = [ViewWrite("latest", "all\nses_1", 0, "sorted"), ViewWrite("pending", "per_1", b"old")]


@contextmanager
def of_an_older_format(store: RedisStore) -> Iterator[None]:
    """Let a store name views as the format before does."""
    with pytest.MonkeyPatch.context() as older:
        older.setattr(keys, "VIEWS_FORMAT", keys.VIEWS_FORMAT - 1)
        store.keys.view.cache_clear()
        yield
    store.keys.view.cache_clear()


async def test_views_of_another_format_are_not_read_and_stay_beside_the_new_ones(server_store: RedisStore) -> None:
    store, partition = server_store, SESSION.partition(server_store.partition_count)
    with of_an_older_format(store):
        assert await project(store, SESSION, START, at(3), LISTED)
    assert await checkpoint(store, SESSION) == START
    assert await store.views() == {}
    assert await store.view_page("latest", "all\n", 10) == []
    assert await project(store, SESSION, START, at(1), [ViewWrite("pending", "per_1", b"new")])
    await store.drop_views(partition, ("pending", "latest"))
    with of_an_older_format(store):
        assert await checkpoint(store, SESSION) == at(3)
        assert await view_field(store, "pending", partition, "per_1") == b"old"
