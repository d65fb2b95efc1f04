"""Damage done to a store on purpose, as its users see it through the library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CAPACITY, FULL, MIB, block_hash, content, segments

from sealstone import Layout, Status, Store

BLOCKS = 24
SIZE = 200_000  # four chunks, the last one short
LAYOUT = Layout.opaque("faults")


def open_store(directory: Path) -> Store:
    return Store(dir=directory, capacity_bytes=CAPACITY, max_block_bytes=4 * MIB)


def fill(directory: Path) -> None:
    with open_store(directory) as store:
        blocks = store.namespace(LAYOUT)
        assert all(blocks.put([(block_hash(i), content(i, SIZE)) for i in range(BLOCKS)]))


def where(directory: Path, key: int, offset: int) -> tuple[Path, int]:
    """File and position of a byte of a block's content."""
    data = content(key, SIZE)
    for path in segments(directory):
        if (at := path.read_bytes().find(data[:4096])) >= 0:
            return path, at + offset
    raise AssertionError(f"block {key} is in no segment")


def flip(directory: Path, key: int, offset: int) -> None:
    path, at = where(directory, key, offset)
    with path.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x10]))
        os.fsync(f.fileno())


def read_all(store: Store) -> list[Status]:
    """The status of every block; each delivered byte, and each kept one, compared."""
    blocks = store.namespace(LAYOUT)
    into = [bytearray(b"\xa5" * SIZE) for _ in range(BLOCKS)]
    got = blocks.get([(block_hash(i), m) for i, m in enumerate(into)])
    for i, (result, memory) in enumerate(zip(got, into, strict=True)):
        expected = content(i, SIZE) if result.ok else b"\xa5" * SIZE
        assert memory == expected, f"block {i}: {result}"
        if result.status not in (Status.OK, Status.MISS):
            assert result.reason, f"block {i}: {result}"
    return [result.status for result in got]


@pytest.mark.parametrize("offset", [0, 65_536, SIZE - 1])
@pytest.mark.parametrize("running", [False, True], ids=["closed", "running"])
def test_fault_flipped_byte(directory: Path, offset: int, running: bool) -> None:
    """That block is CORRUPT and no other; its destination is as it was."""
    fill(directory)
    victim = offset % BLOCKS
    if not running:
        flip(directory, victim, offset)
    with open_store(directory) as store:
        if running:
            assert read_all(store) == [Status.OK] * BLOCKS
            flip(directory, victim, offset)
        expected = [Status.OK] * BLOCKS
        expected[victim] = Status.CORRUPT
        assert read_all(store) == expected
        again = read_all(store)
        assert again[victim] in (Status.CORRUPT, Status.MISS)
        assert again[:victim] + again[victim + 1 :] == [Status.OK] * (BLOCKS - 1)
        blocks = store.namespace(LAYOUT)
        # It can be put anew.
        [put] = blocks.put([(block_hash(victim), content(victim, SIZE))])
        assert put.ok
        assert read_all(store) == [Status.OK] * BLOCKS


def test_fault_range_of_a_damaged_block(directory: Path) -> None:
    """A range is verified by its own chunks."""
    from sealstone import GetBlock, Part

    fill(directory)
    flip(directory, 3, 70_000)
    with open_store(directory) as store:
        blocks = store.namespace(LAYOUT)
        first, second = bytearray(65_536), bytearray(65_536)
        fine = blocks.get([GetBlock(block_hash(3), Part(first, offset=0, length=65_536))])
        bad = blocks.get([GetBlock(block_hash(3), Part(second, offset=65_536, length=65_536))])
        assert fine[0].ok and first == content(3, SIZE)[:65_536]
        assert bad[0].status is Status.CORRUPT and second == bytes(65_536)


def test_fault_truncated_segment(directory: Path) -> None:
    """What was cut off is lost and nothing else."""
    fill(directory)
    path, at = where(directory, BLOCKS // 2, 0)
    os.truncate(path, at)
    with open_store(directory) as store:
        found = read_all(store)
    assert found[: BLOCKS // 2] == [Status.OK] * (BLOCKS // 2)
    assert Status.OK not in found[BLOCKS // 2 :]


def test_fault_segments_gone(directory: Path) -> None:
    fill(directory)
    for path in segments(directory):
        path.unlink()
    with open_store(directory) as store:
        assert Status.OK not in read_all(store)


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from conftest import block_hash, content
from test_faults import LAYOUT, SIZE, open_store
blocks = open_store(__import__("pathlib").Path(sys.argv[1])).namespace(LAYOUT)
i = 0
while True:
    put = blocks.put([(block_hash(k), content(k, SIZE)) for k in (i, i + 1)])
    print(*(k for k, p in zip((i, i + 1), put) if p.ok), flush=True)
    i += 2
"""


@pytest.mark.parametrize("kill_after", range(1, 40 if FULL else 4))
def test_fault_kill(directory: Path, kill_after: int) -> None:
    """What a killed process had been told to be stored is there, byte for byte."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, directory, Path(__file__).parent],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    said = [child.stdout.readline() for _ in range(kill_after)]
    child.send_signal(signal.SIGKILL)
    # What it had said before it died counts.
    said += child.stdout.read().splitlines()
    child.wait(60)
    child.stdout.close()
    keys = [int(k) for line in said for k in line.split()]
    assert len(keys) >= 2 * kill_after
    with open_store(directory) as store:
        blocks = store.namespace(LAYOUT)
        into = [bytearray(SIZE) for _ in keys]
        got = blocks.get([(block_hash(k), m) for k, m in zip(keys, into, strict=True)])
        assert all(got), got
        assert into == [content(k, SIZE) for k in keys]


def test_fault_read_only_store_sheds(directory: Path) -> None:
    fill(directory)
    with Store(dir=directory, read_only=True) as store:
        assert read_all(store) == [Status.OK] * BLOCKS
        [put] = store.namespace(LAYOUT).put([(block_hash("new"), b"x")])
        assert put.status is Status.SHED and put.reason


def test_fault_more_than_the_capacity(directory: Path) -> None:
    """A full store gives up old blocks, stays within its bound, and serves no wrong byte."""
    size, capacity = 2 * MIB, 128 * MIB
    with Store(dir=directory, capacity_bytes=capacity, max_block_bytes=4 * MIB) as store:
        blocks = store.namespace(LAYOUT)
        for i in range(0, 96, 4):
            keys = range(i, i + 4)
            for put in blocks.put([(block_hash(k), content(k, size)) for k in keys]):
                assert put.status in (Status.OK, Status.SHED)
        used = sum(f.stat().st_blocks * 512 for f in directory.rglob("*") if f.is_file())
        assert used <= capacity
        statuses = []
        for i in range(96):
            into = bytearray(size)
            [got] = blocks.get([(block_hash(i), into)])
            statuses.append(got.status)
            assert into == (content(i, size) if got.ok else bytes(size))
        assert Status.OK in statuses and Status.MISS in statuses
        assert set(statuses) == {Status.OK, Status.MISS}
