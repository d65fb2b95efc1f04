"""Completions for event loops.

A loop with operations under way watches a descriptor of its own that tells of
completions, and lets go of it when none is left: a loop can be closed at any
time. What it takes may be another loop's, and is handed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from ._pending import Pending
from ._requests import Batch

if TYPE_CHECKING:
    from ._core import Core


class _Watch:
    """How one loop watches. Used by the loop's thread alone."""

    def __init__(self, event_fd: int) -> None:
        self.fd = os.dup(event_fd)
        self.operations = 0

    def __del__(self) -> None:
        os.close(self.fd)


class Loops:
    """The event loops that use a store."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._mutex = threading.Lock()
        self._watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = (
            weakref.WeakKeyDictionary()
        )

    async def run(
        self, kind: int, namespace: int, batch: Batch, flags: int, timeout: float | None
    ) -> list[Any]:
        """Runs an operation. A task that is cancelled leaves it to its end."""
        loop = asyncio.get_running_loop()
        pending = Pending(kind, batch)
        pending.loop, pending.future = loop, loop.create_future()
        try:
            self._core.check()
            self._begin(loop)
        except BaseException:
            batch.pins.release()
            raise
        submitted = False
        try:
            submitted = self._core.submit(pending, namespace, flags, timeout)
        finally:
            if not submitted:
                self._finish(loop)
        if not submitted:
            return pending.results
        results: list[Any] = await pending.future
        return results

    def deliver(self, settled: list[Pending], by: object) -> None:
        """Hands results to the loops that wait, from whatever thread."""
        loops: dict[asyncio.AbstractEventLoop, list[Pending]] = {}
        for p in settled:
            loops.setdefault(p.loop, []).append(p)
        for loop, mine in loops.items():
            if loop is by:
                self._settle(loop, mine)
                continue
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._settle, loop, mine)

    def _settle(self, loop: asyncio.AbstractEventLoop, settled: list[Pending]) -> None:
        for p in settled:
            if p.future is not None and not p.future.done():
                p.future.set_result(p.results)
            self._finish(loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._mutex:
            watch = self._watches.get(loop)
            if watch is None:
                watch = self._watches[loop] = _Watch(self._core.event_fd)
        watch.operations += 1
        if watch.operations == 1:
            loop.add_reader(watch.fd, self._core.drain, loop)

    def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._mutex:
            watch = self._watches[loop]
        watch.operations -= 1
        if watch.operations == 0:
            loop.remove_reader(watch.fd)
