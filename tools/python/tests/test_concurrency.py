"""Threads and event loops on a real store; every byte compared."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from pathlib import Path

import pytest
from conftest import FULL, MIB, block_hash, content

from sealstone import Namespace, Status, Store

THREADS = 8
ROUNDS = 200 if FULL else 12


def test_threads(blocks: Namespace) -> None:
    """Puts and gets of eight threads, of own keys and of shared ones."""
    failed: list[str] = []
    start = threading.Barrier(THREADS)

    def work(me: int) -> None:
        rng = random.Random(me)
        start.wait()
        for round_ in range(ROUNDS):
            keys = [f"{me} {round_} {i}" for i in range(3)] + [f"shared {rng.randrange(10)}"]
            size = rng.choice([1, 5000, 65_536, 300_000])
            put = blocks.put([(block_hash(k), content(k, size)) for k in keys])
            into = [bytearray(size) for _ in keys]
            got = blocks.get([(block_hash(k), m) for k, m in zip(keys, into, strict=True)])
            for i in range(3):
                if not (put[i].ok and got[i].ok and into[i] == content(keys[i], size)):
                    failed.append(f"{keys[i]} of {size}: {put[i]} {got[i]}")
            # The shared key may be there in another size.
            if got[3].ok and into[3] != content(keys[3], size):
                failed.append(f"{keys[3]} of {size}: {got[3]}")
            if got[3].status not in (Status.OK, Status.LENGTH_MISMATCH):
                failed.append(f"{keys[3]} of {size}: {got[3]}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed[:5]


def test_concurrent_gets(blocks: Namespace) -> None:
    data = {block_hash(i): content(i, 100_000) for i in range(20)}

    async def run() -> None:
        assert all(await blocks.aput(data.items()))
        memory = [(h, bytearray(100_000)) for h in list(data) * 5]
        got = await asyncio.gather(*(blocks.aget([m]) for m in memory))
        assert all(g[0].ok for g in got)
        assert all(m == data[h] for h, m in memory)

    asyncio.run(run())


def test_every_call_of_asyncio(directory: Path) -> None:
    async def run() -> None:
        store = Store(dir=directory, capacity_bytes=256 * MIB, max_block_bytes=MIB)
        async with store:
            blocks = await store.anamespace({**_opaque("x")}, "tenant")
            h = block_hash(1)
            assert (await blocks.aput([(h, b"data")], durable=True))[0].durable
            into = bytearray(4)
            [got] = await blocks.aget([(h, into)], want_seal=True)
            assert got.ok and got.seal and into == b"data"
            assert await blocks.aexists([h, block_hash(2)]) == [Status.OK, Status.MISS]
            assert await blocks.atouch([h]) == [Status.OK]
            with await blocks.amatch([h]) as lease:
                assert lease.blocks == 1
            new = await blocks.abump_epoch()
            assert (await blocks.aexists([h])) == [Status.STALE_EPOCH]
            assert await new.aexists([h]) == [Status.MISS]
            await new.aput([(h, b"new")])
            assert [d.status for d in await new.adrop([h])] == [Status.OK]
            with pytest.raises(ValueError, match="receive bytes"):
                await new.aget([(h, b"read-only")])
        assert store.closed

    asyncio.run(run())


def _opaque(name: str) -> dict[str, object]:
    from sealstone import Layout

    return Layout.opaque(name).to_dict()


def test_cancellation(blocks: Namespace) -> None:
    """However often tasks are cancelled, memory is written by nobody later."""
    h, size = block_hash(1), MIB
    blocks.put([(h, content(1, size))])

    async def run() -> None:
        for _ in range(30 if FULL else 8):
            memory = [bytearray(size) for _ in range(8)]
            tasks = [asyncio.create_task(blocks.aget([(h, m)])) for m in memory]
            await asyncio.sleep(0)
            for t in tasks[::2]:
                t.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(d, asyncio.CancelledError) for d in done[::2])
            for d, m in zip(done[1::2], memory[1::2], strict=True):
                assert not isinstance(d, BaseException) and d[0].ok and m == content(1, size)

    asyncio.run(run())
    assert blocks.exists([h]) == [Status.OK]


def test_loops_and_threads_together(blocks: Namespace) -> None:
    """Two loops and two threads drain one queue."""
    data = {block_hash(i): content(i, 50_000) for i in range(16)}
    blocks.put(data.items())
    failed: list[object] = []

    def compare(h: bytes, memory: bytearray, ok: bool) -> None:
        if not ok or memory != data[h]:
            failed.append((h.hex(), ok))

    async def one(h: bytes) -> None:
        memory = bytearray(50_000)
        [got] = await blocks.aget([(h, memory)])
        compare(h, memory, got.ok)

    async def loop() -> None:
        for _ in range(ROUNDS):
            await asyncio.gather(*(one(h) for h in data))

    def thread() -> None:
        for _ in range(ROUNDS):
            for h in list(data)[:4]:
                memory = bytearray(50_000)
                compare(h, memory, blocks.get([(h, memory)])[0].ok)

    threads = [threading.Thread(target=thread) for _ in range(2)]
    threads += [threading.Thread(target=lambda: asyncio.run(loop())) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed[:3]
    assert not blocks._core._pending


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def test_many_gets_leave_memory_flat(blocks: Namespace) -> None:
    """100,000 blocks are got; were each to leave 100 bytes, that would show."""
    batch, batches = 500, 200
    blocks.put([(block_hash(i), content(i, 64)) for i in range(batch)])
    asked = [(block_hash(i), bytearray(64)) for i in range(batch)]

    def run(count: int) -> None:
        for _ in range(count):
            assert all(blocks.get(asked))
        gc.collect()

    run(batches // 4)
    objects, before = len(gc.get_objects()), resident_bytes()
    run(batches)
    assert len(gc.get_objects()) - objects < 1000
    # Go's heap breathes: some megabytes say nothing, what a leak of every
    # block's request would come to (hundreds of bytes each) does.
    assert resident_bytes() - before < 24 * MIB
