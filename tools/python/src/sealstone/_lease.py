"""The longest stored prefix, and the promise to keep it for a while."""

from __future__ import annotations

from types import TracebackType

from ._core import Core
from ._status import Status


class Lease:
    """What ``Namespace.match`` found.

    ``blocks`` is how many of the hashes, from the first on, are stored. Until
    the lease is released or expires (60 s, unless the store says otherwise)
    eviction keeps them. That makes a get likely to succeed; the proof is the
    get itself.
    """

    def __init__(self, core: Core, handle: int, blocks: int) -> None:
        self._core = core
        self._handle = handle
        self.blocks = blocks

    def __repr__(self) -> str:
        return f"<Lease on {self.blocks} blocks>"

    @property
    def held(self) -> bool:
        """Whether there is a promise to release: not for an empty match, nor
        where leases together hold their share of the store already."""
        return self._handle != 0

    def renew(self) -> bool:
        """Begins the time anew; False if the lease has expired: match again."""
        if not self._handle:
            return False
        self._core.check()
        return Status(self._core.library.renew(self._handle)) is Status.OK

    def release(self) -> None:
        """Ends the lease. A second call does nothing."""
        handle, self._handle = self._handle, 0
        if handle and not self._core.closing:
            self._core.library.release(handle)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
