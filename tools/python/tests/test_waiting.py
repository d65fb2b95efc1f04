"""Completions and who waits for them: threads, loops, cancellation, closing."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable

import pytest
from conftest import block_hash, core_of
from double import Double

import sealstone
from sealstone import ClosedError, CloseError, Namespace, Status, Store


def until(condition: Callable[[], bool]) -> None:
    """Waits for what must come; the bound is there for hangs only."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.001)


async def auntil(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come"
        await asyncio.sleep(0.001)


def test_blocking(doubled_blocks: Namespace) -> None:
    h = block_hash(1)
    [put] = doubled_blocks.put([(h, b"bytes")])
    assert put.ok and put.written_bytes == 5
    into = bytearray(5)
    [got] = doubled_blocks.get([(h, into)])
    assert got.ok and into == b"bytes"
    assert doubled_blocks.exists([h, block_hash(2)]) == [Status.OK, Status.MISS]


def test_threads_hand_completions_on(double: Double, doubled_blocks: Namespace) -> None:
    """Completions come in an order that is not that of the waiting threads."""
    double.held = True
    answers: dict[int, list[Status]] = {}

    def ask(i: int) -> None:
        answers[i] = doubled_blocks.exists([block_hash(i)])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    until(lambda: len(double.waiting) == 16)
    double.waiting.reverse()
    for _ in threads:
        double.let_go(1)
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    assert answers == {i: [Status.MISS] for i in range(16)}


def test_memory_is_held_until_the_completion(double: Double, doubled_blocks: Namespace) -> None:
    double.blocks[block_hash(1)] = b"12345678"
    double.held = True
    into = bytearray(8)
    waiting = threading.Thread(target=doubled_blocks.get, args=([(block_hash(1), into)],))
    waiting.start()
    until(lambda: len(double.waiting) == 1)
    with pytest.raises(BufferError):
        into.extend(b"more")  # would move it
    double.let_go()
    waiting.join(60)
    into.extend(b"more")
    assert into == b"12345678more"


def test_cancelled_task_leaves_memory_to_the_operation(
    double: Double, doubled_blocks: Namespace
) -> None:
    double.blocks[block_hash(1)] = b"12345678"
    double.held = True
    into = bytearray(8)

    async def run() -> None:
        task = asyncio.create_task(doubled_blocks.aget([(block_hash(1), into)]))
        await auntil(lambda: len(double.waiting) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(BufferError):
            into.append(1)
        double.let_go()
        await auntil(lambda: into == b"12345678" and not doubled_blocks._core._pending)
        into.append(9)

    asyncio.run(run())
    assert into == b"12345678\x09"


def test_loop_that_is_closed_with_an_operation_under_way(
    double: Double, doubled_blocks: Namespace
) -> None:
    double.blocks[block_hash(1)] = b"12345678"
    double.held = True
    into = bytearray(8)

    async def leave() -> None:
        task = asyncio.create_task(doubled_blocks.aget([(block_hash(1), into)]))
        await auntil(lambda: len(double.waiting) == 1)
        task.cancel()

    asyncio.run(leave())
    double.held = False
    double.let_go()
    # Whoever drains next takes that one too.
    assert doubled_blocks.exists([block_hash(2)]) == [Status.MISS]
    until(lambda: not doubled_blocks._core._pending)
    into.append(9)
    assert into == b"12345678\x09"


def test_loop_takes_what_a_thread_waits_for(double: Double, doubled_blocks: Namespace) -> None:
    """The leader sleeps on the same descriptor that the loop drains."""
    double.held = True
    answers: list[list[Status]] = []
    waiting = threading.Thread(
        target=lambda: answers.append(doubled_blocks.exists([block_hash(1)]))
    )
    waiting.start()
    until(lambda: len(double.waiting) == 1)
    core = doubled_blocks._core
    with core._draining:  # the leader can not take it before the loop does
        double.let_go()
        time.sleep(0.02)
    core.drain()
    waiting.join(60)
    assert not waiting.is_alive() and answers == [[Status.MISS]]


def test_loop_lets_go_of_its_descriptor(double: Double, doubled_blocks: Namespace) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        readers = len(loop._selector.get_map())  # type: ignore[attr-defined]
        await asyncio.gather(*(doubled_blocks.aexists([block_hash(i)]) for i in range(5)))
        assert len(loop._selector.get_map()) == readers  # type: ignore[attr-defined]

    asyncio.run(run())


def test_interrupted_leader_is_followed(
    double: Double, doubled_blocks: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.held = True
    core = doubled_blocks._core
    answers: list[list[Status]] = []
    failed: list[BaseException] = []
    drain = core.drain

    def interrupt(by: object = None) -> int:
        if threading.current_thread().name == "leader" and double.ready:
            raise KeyboardInterrupt
        return drain(by)

    monkeypatch.setattr(core, "drain", interrupt)

    def lead() -> None:
        try:
            doubled_blocks.exists([block_hash(1)])
        except KeyboardInterrupt as err:
            failed.append(err)

    leader = threading.Thread(target=lead, name="leader")
    leader.start()
    until(lambda: core._leader is not None)
    follower = threading.Thread(
        target=lambda: answers.append(doubled_blocks.exists([block_hash(2)]))
    )
    follower.start()
    until(lambda: len(double.waiting) == 2)
    double.let_go()
    leader.join(60)
    follower.join(60)
    assert len(failed) == 1 and answers == [[Status.MISS]]


@pytest.mark.parametrize(
    ("status", "said"), [(Status.SHED, "too many"), (Status.INTERNAL, "INTERNAL")]
)
def test_refused_submit_is_a_status(
    double: Double, doubled_blocks: Namespace, status: Status, said: str
) -> None:
    double.refuse = status
    into = bytearray(4)
    for got in doubled_blocks.get([(block_hash(1), into), (block_hash(2), bytearray(1))]):
        assert got.status is status and said in got.reason
    into.append(1)  # let go of

    async def run() -> None:
        [got] = await doubled_blocks.aget([(block_hash(1), into)])
        assert got.status is status

    asyncio.run(run())
    into.append(1)


def test_reasons_come_with_what_failed(double: Double, doubled_blocks: Namespace) -> None:
    double.answer = {block_hash(1): Status.CORRUPT, block_hash(2): Status.MISS}
    results = doubled_blocks.get([(block_hash(i), bytearray(1)) for i in (1, 2)])
    assert [(r.status, r.reason) for r in results] == [
        (Status.CORRUPT, "because of item 0"),
        (Status.MISS, ""),
    ]


def test_status_that_is_not_known_is_a_miss(double: Double, doubled_blocks: Namespace) -> None:
    double.answer = {block_hash(1): 99}  # type: ignore[dict-item]
    [got] = doubled_blocks.get([(block_hash(1), bytearray(1))])
    assert not got.ok and got.status.name == "UNKNOWN_99" and got.status == 99


def test_results_that_need_more_room(double: Double, doubled_blocks: Namespace) -> None:
    hashes = [block_hash(i) for i in range(9000)]
    assert doubled_blocks.exists(hashes) == [Status.MISS] * 9000


def test_many_completions_at_once(double: Double, doubled_blocks: Namespace) -> None:
    double.held = True

    async def run() -> None:
        asked = [asyncio.create_task(doubled_blocks.aexists([block_hash(i)])) for i in range(500)]
        await auntil(lambda: len(double.waiting) == 500)
        double.let_go()
        assert await asyncio.gather(*asked) == [[Status.MISS]] * 500

    asyncio.run(run())


def test_options_reach_the_library(double: Double, doubled_blocks: Namespace) -> None:
    doubled_blocks.put([(block_hash(1), b"x")], durable=True, timeout=1.5)
    doubled_blocks.get([(block_hash(1), bytearray(1))], wait_for_device=True, timeout=0)
    doubled_blocks.exists([])
    put, get, exists = double.submitted
    assert (put.flags, put.timeout_ns) == (1, 1_500_000_000)
    assert (get.flags, get.timeout_ns) == (2, 1)  # 0 would be the default
    assert (exists.flags, exists.timeout_ns, exists.items) == (0, 0, [])


def test_close_waits_and_can_be_repeated(double: Double, doubled: Store) -> None:
    blocks = doubled.namespace(sealstone.Layout.opaque("test"))
    double.blocks[block_hash(1)] = b"late"
    double.held = True
    into = bytearray(4)
    results: list[sealstone.GetResult] = []
    waiting = threading.Thread(target=lambda: results.extend(blocks.get([(block_hash(1), into)])))
    waiting.start()
    until(lambda: len(double.waiting) == 1)
    with pytest.raises(CloseError, match="still with the device"):
        doubled.close(timeout=0.01)
    assert doubled.closed
    with pytest.raises(ClosedError):
        blocks.exists([block_hash(1)])
    with pytest.raises(BufferError):
        into.append(1)
    double.let_go()
    waiting.join(60)
    assert results[0].ok and into == b"late"
    doubled.close()
    doubled.close()
    assert double.closes == 2


def test_close_says_that_the_last_sync_failed(double: Double, doubled: Store) -> None:
    double.close_status = Status.IO_ERROR
    with pytest.raises(CloseError, match="last sync"):
        doubled.close()
    doubled.close()
    assert double.closes == 1


def test_close_closes_descriptors(double: Double, doubled: Store) -> None:
    blocks = doubled.namespace(sealstone.Layout.opaque("test"))
    blocks.exists([block_hash(1)])
    core = doubled._core
    assert core.event_fd >= 0
    doubled.close()
    assert core.event_fd == -1 and core._wake == -1


def test_forgotten_store_is_closed(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sealstone._store._open", lambda given, options: core_of(double))
    store = Store(dir="nowhere")
    blocks = store.namespace(sealstone.Layout.opaque("test"))
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is not None, "a namespace in use keeps its store"
    assert double.closes == 0
    del blocks
    gc.collect()
    assert gone() is None and double.closes == 1 and double.closed_namespaces == [7]


def test_lease_of_a_cancelled_match_is_released(
    double: Double, doubled_blocks: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = threading.Event()
    asked = threading.Event()
    match = double.match

    def slow(*arguments: object) -> int:
        asked.set()
        may_answer.wait(60)
        return match(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(double, "match", slow)

    async def run() -> None:
        task = asyncio.create_task(doubled_blocks.amatch([block_hash(1)]))
        await auntil(asked.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_answer.set()
        await auntil(lambda: double.released == [5])

    asyncio.run(run())


def test_two_loops(double: Double, doubled_blocks: Namespace) -> None:
    double.held = True
    answers: list[list[list[Status]]] = []

    async def ask() -> None:
        asked = (doubled_blocks.aexists([block_hash(i)]) for i in range(50))
        answers.append(await asyncio.gather(*asked))

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(2)]
    for t in threads:
        t.start()
    until(lambda: len(double.waiting) == 100)
    for _ in range(100):
        double.let_go(1)
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    assert answers == [[[Status.MISS]] * 50] * 2


def test_references_are_let_go_of(double: Double, doubled_blocks: Namespace) -> None:
    class Held(bytearray):
        pass

    into = Held(4)
    before = sys.getrefcount(into)
    for _ in range(10):
        doubled_blocks.get([(block_hash(1), into)])
    assert sys.getrefcount(into) == before
