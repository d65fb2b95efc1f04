#!/usr/bin/env python3
"""What a store does through the Python package: look-ups and verified gets.

Usage: bench.py --dir DIR [--json FILE] [--blocks N] [--seconds S] [--rounds N]

DIR has to be empty or missing; it holds a store of some 2 GiB afterwards.
Medians of the rounds; the variants take turns within a round. On a busy machine
look at the CPU: a rate then says what the others left.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import platform
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sealstone
from sealstone import _abi

MIB = 1 << 20
HASH_BYTES = 32
LAYOUT = sealstone.Layout.opaque("bench")


def block_hash(i: int) -> bytes:
    """The hash of the block of a number."""
    return hashlib.sha256(i.to_bytes(8, "little")).digest()


@dataclass
class Rate:
    """What was measured in one round."""

    per_second: float
    cpu_per_unit_s: float
    """Of this thread for look-ups, of the process for gets."""


def measured(run: Callable[[], int], seconds: float, clock: Callable[[], float]) -> Rate:
    """How many units of run there are in a second, and the CPU that each costs."""
    run()
    units, started, cpu = 0, time.perf_counter(), clock()
    while (took := time.perf_counter() - started) < seconds:
        units += run()
    return Rate(units / took, (clock() - cpu) / units)


class Busy:
    """A second Python thread that never waits for anything."""

    def __enter__(self) -> None:
        self.stop = False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop = True
        self.thread.join()

    def work(self) -> None:
        """Adds up numbers."""
        n = 0
        while not self.stop:
            n += 1


class Lookups:
    """Look-ups of hashes of which half are stored."""

    def __init__(self, store: sealstone.Store, blocks: int) -> None:
        self.space = store.namespace(LAYOUT, "lookups")
        for first in range(0, blocks, 500):
            keys = range(first, min(first + 500, blocks))
            self.space.put([(block_hash(i), b"kv") for i in keys])
        self.asked = [block_hash(i) for i in range(2 * blocks)]
        random.Random(1).shuffle(self.asked)
        # The same function with the interpreter's lock released.
        library = ctypes.CDLL(str(_abi.library_path()))
        self.released = library.sealstone_lookup_now
        kept = _abi.library().lookup_now
        self.released.argtypes, self.released.restype = kept.argtypes, kept.restype
        self.kept = kept

    def known(self) -> float:
        """The share of look-ups that memory can answer."""
        found = self.space.lookup_now(self.asked)
        return sum(s in (sealstone.Status.OK, sealstone.Status.MISS) for s in found) / len(found)

    def run(self, batch: int, released: bool) -> Callable[[], int]:
        """One look-up of a batch, through PyDLL or through CDLL."""
        library, kept = _abi.library(), self.kept
        at = 0

        def once() -> int:
            nonlocal at
            at = (at + batch) % (len(self.asked) - batch)
            library.lookup_now = self.released if released else kept
            self.space.lookup_now(self.asked[at : at + batch])
            library.lookup_now = kept
            return batch

        return once


class Gets:
    """Gets of blocks of 1 MiB, past the page cache where the directory allows."""

    def __init__(self, store: sealstone.Store, blocks: int, batch: int) -> None:
        self.space = store.namespace(LAYOUT, "gets")
        self.batch, self.blocks, self.at = batch, blocks, 0
        for i in range(blocks):
            data = random.Random(i).randbytes(MIB)
            [put] = self.space.put([(block_hash(i), data)])
            if not put.ok:
                sys.exit(f"block {i} was not stored: {put}")
        self.memory = mmap.mmap(-1, batch * MIB)
        self.memory.madvise(mmap.MADV_HUGEPAGE)
        self.region = store.register(self.memory)
        self.views = [memoryview(self.memory)[i * MIB : (i + 1) * MIB] for i in range(batch)]

    def run(self, wait_for_device: bool) -> Callable[[], int]:
        """One batch; returns its bytes."""

        def once() -> int:
            keys = [(self.at + i) % self.blocks for i in range(self.batch)]
            self.at += self.batch
            asked = [(block_hash(k), v) for k, v in zip(keys, self.views, strict=True)]
            got = self.space.get(asked, wait_for_device=wait_for_device)
            if bad := [g for g in got if not g.ok]:
                sys.exit(f"a block did not come back: {bad[0]}")
            return self.batch * MIB

        return once


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All figures, as lists of one a round."""
    figures: dict[str, list[Rate]] = {}
    store = sealstone.Store(dir=options.dir, capacity_bytes=4 << 30, create_only=True)
    with store:
        lookups = Lookups(store, options.blocks)
        gets = [Gets(store, 1024, batch) for batch in (64,)]
        for _ in range(options.rounds):
            for batch in (1, 16, 256):
                for busy in (False, True):
                    for released in (False, True):
                        name = (
                            f"lookups of {batch}, {'CDLL' if released else 'PyDLL'}"
                            f"{', busy thread' if busy else ''}"
                        )
                        run = lookups.run(batch, released)
                        with Busy() if busy else contextlib.nullcontext():
                            rate = measured(run, options.seconds, time.thread_time)
                        figures.setdefault(name, []).append(rate)
            for get in gets:
                for wait in (False, True):
                    name = f"gets of {get.batch} x 1 MiB{', into a region' if wait else ''}"
                    rate = measured(get.run(wait), 4 * options.seconds, time.process_time)
                    figures.setdefault(name, []).append(rate)
        known = lookups.known()
        for get in gets:
            get.region.release()
    plain = {name: [asdict(r) for r in rates] for name, rates in figures.items()}
    return {"figures": plain, "known_share": known}


def main() -> None:
    """Measures, prints a table, and writes JSON where asked to."""
    parse = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parse.add_argument("--dir", type=Path, required=True, help="where to make the store")
    parse.add_argument("--json", type=Path, help="file for all figures")
    parse.add_argument("--blocks", type=int, default=20_000, help="blocks to look up")
    parse.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parse.add_argument("--rounds", type=int, default=5)
    options = parse.parse_args()
    report = {
        "package": sealstone.__version__,
        "library": sealstone.library_version(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        **measure(options),
    }
    print(f"{'':40} {'median':>10} {'least':>10} {'most':>10}        {'CPU':>8}")
    for name, rates in report["figures"].items():
        gets = name.startswith("gets")
        per_second = [r["per_second"] / (MIB if gets else 1) for r in rates]
        cpu = statistics.median(r["cpu_per_unit_s"] for r in rates) * (1 << 30 if gets else 1e6)
        values = statistics.median(per_second), min(per_second), max(per_second)
        print(
            f"{name:40} {' '.join(f'{v:10,.0f}' for v in values)} {'MiB/s' if gets else '/s   '}"
            f" {cpu:8.2f} {'s/GiB' if gets else 'us'}"
        )
    print(f"memory could answer {report['known_share']:.0%} of the look-ups")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
