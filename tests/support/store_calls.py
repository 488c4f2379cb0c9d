"""Short calls of a store's operations on one stream, one field or one kind of stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ledger.log.viewed import checkpoints
from ledger.stores.port import Append, AppendResult, Entry, Position, StreamKey, ViewAdvance, ViewWrite, WantedFields
from ledger.stores.sealed import Seal
from ledger.stores.store import Answered, Store
from tests.support.backends import SESSION


async def project(store: Store, key: StreamKey, expected: Position, at: Position, writes: Sequence[ViewWrite]) -> bool:
    return await store.project(key.partition(store.partition_count), [ViewAdvance(key, expected, at)], writes)


async def checkpoint(store: Store, key: StreamKey) -> Position:
    return (await checkpoints(store, [key]))[0]


async def view(store: Store, name: str, partition: int) -> Mapping[str, bytes]:
    return (await store.read_views(partition, [name]))[name]


async def view_fields(store: Store, name: str, partition: int, fields: Sequence[str]) -> list[bytes | None]:
    return (await store.view_fields([WantedFields(name, partition, fields)]))[0]


async def view_field(store: Store, name: str, partition: int, field: str) -> bytes | None:
    return (await view_fields(store, name, partition, [field]))[0]


async def seals(store: Store, keys: Sequence[StreamKey]) -> list[Seal | None]:
    return [one.seal for one in await store.heads(keys)]


async def positions(store: Store, keys: Sequence[StreamKey]) -> list[Position]:
    return [one.at for one in await store.heads(keys)]


async def drop_all_views(store: Store, partition: int) -> None:
    await store.drop_views(partition, (await store.views()).get(partition, ()))


Step = Append | Callable[[], Awaitable[Append]]


async def rewritten(
    store: Store, versions: Sequence[int], *steps: Step, key: StreamKey = SESSION
) -> list[AppendResult]:
    """Rewrite a stream with these appends, one after the other, and return what each was answered."""
    answers: list[AppendResult] = []
    left = list(steps)

    async def following(result: AppendResult | None) -> Append | None:
        answers.extend(() if result is None else (result,))
        if not left:
            return None
        step = left.pop(0)
        return step if isinstance(step, Append) else await step()

    await store.rewrite(key, versions, following)
    return answers


async def answer_with(answered: Answered, work: Awaitable[tuple[AppendResult, tuple[Entry, ...]]]) -> None:
    """Call `answered` with what `work` returns or raises."""
    try:
        result, beside = await work
    except Exception as error:  # noqa: BLE001 - the callback is the only way to report it
        answered(error, ())
    else:
        answered(result, beside)
