"""A caller's turns wait behind its own, and never delay another caller's."""

from __future__ import annotations

import asyncio

from workers.gateway.quotas import Turns


def waiting_count(turns: Turns) -> int:
    return sum(not one.done() for one in turns._waiting.get("flood", ()))


async def test_a_caller_waits_behind_itself_and_lets_others_pass() -> None:
    turns = Turns(count=2)

    async def look() -> tuple[int, int]:
        waiting = waiting_count(turns)
        await turns.take("ann")  # without yielding to the loop
        return waiting, waiting_count(turns)

    flood = [asyncio.create_task(turns.take("flood")) for _ in range(7)]
    looked = asyncio.create_task(look())
    assert await looked == (5, 5)
    await asyncio.gather(*flood)
    assert waiting_count(turns) == 0


async def test_who_gave_up_holds_no_turn() -> None:
    turns = Turns(count=1)
    first, second, third = [asyncio.create_task(turns.take("flood")) for _ in range(3)]

    async def give_up() -> None:
        second.cancel()

    await asyncio.create_task(give_up())
    await asyncio.gather(first, third)
    assert second.cancelled()


async def test_turns_come_in_the_order_of_coming() -> None:
    turns, came = Turns(count=1), list[int]()

    async def take(number: int) -> None:
        await turns.take("flood")
        came.append(number)

    await asyncio.gather(*(take(number) for number in range(6)))
    assert came == list(range(6))
