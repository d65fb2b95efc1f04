"""Memory that a store reads and writes without a copy."""

from __future__ import annotations

from types import TracebackType

from ._buffers import Pins
from ._core import Core


class Region:
    """Registered memory; it stays referenced until ``release``.

    Release it when no operation uses it any more.
    """

    def __init__(self, core: Core, handle: int, pins: Pins) -> None:
        self._core = core
        self._handle = handle
        self._pins = pins

    def release(self) -> None:
        """Ends the region. A second call does nothing."""
        handle, self._handle = self._handle, 0
        if handle and not self._core.closing:
            self._core.library.unregister_region(self._core.handle, handle)
        self._pins.release()

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
