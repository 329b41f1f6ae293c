"""Callbacks that could all run at once let the event loop run in between."""

from __future__ import annotations

import asyncio

from crawlframe.node.worker.crawl.callbacks import AT_A_TIME, CallbackThrottle

MANY = 5 * AT_A_TIME


def test_others_come_in_between() -> None:
    async def main() -> list[str]:
        throttle, seen = CallbackThrottle(), []

        async def callback() -> None:
            await throttle.acquire()
            seen.append("callback")

        async def others() -> None:
            while seen.count("callback") < MANY:
                seen.append("others")
                await asyncio.sleep(0)

        await asyncio.gather(*(callback() for _ in range(MANY)), others())
        return seen

    runs = "".join(word[0] for word in asyncio.run(main())).split("o")
    assert max(map(len, runs)) == AT_A_TIME
    assert sum(map(len, runs)) == MANY


def test_first_come_first_served_and_the_cancelled_are_passed_over() -> None:
    async def main() -> list[int]:
        throttle, seen = CallbackThrottle(), []

        async def callback(number: int) -> None:
            await throttle.acquire()
            seen.append(number)

        tasks = [asyncio.create_task(callback(number)) for number in range(MANY)]
        await asyncio.sleep(0)
        for task in tasks[AT_A_TIME::3]:
            task.cancel()
        await asyncio.wait(tasks)
        return seen

    cancelled = range(AT_A_TIME, MANY, 3)
    assert asyncio.run(main()) == [n for n in range(MANY) if n not in cancelled]


def test_without_waiting_callbacks_a_slot_is_free_at_once() -> None:
    async def main() -> None:
        throttle = CallbackThrottle()
        for _ in range(MANY):
            await asyncio.wait_for(throttle.acquire(), 10)

    asyncio.run(main())
