"""The seal of a block: its sums, for whoever passes it on."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_VERSION = 1
_HEAD = struct.Struct("<B16sI")
_COUNT = struct.Struct("<I")

CHUNK_BYTES = 65536
BLOCK_MAX = 64 << 20


@dataclass(frozen=True)
class Seal:
    """Sums and lengths of a block's content.

    A get returns it on request; a put that is given one stores the block only
    if the bytes come to it.
    """

    content_id: bytes
    """16 bytes over number and lengths of the planes and all chunk sums."""
    plane_bytes: tuple[int, ...]
    """Length of each plane, in the layout's order."""
    chunk_sums: tuple[int, ...]
    """XXH64 of each 64 KiB of each plane, in order."""

    def to_bytes(self) -> bytes:
        """The seal as the C interface has it."""
        if len(self.content_id) != 16:
            raise ValueError(f"a content id of {len(self.content_id)} bytes, not 16")
        planes, chunks = len(self.plane_bytes), len(self.chunk_sums)
        try:
            return b"".join(
                (
                    _HEAD.pack(_VERSION, self.content_id, planes),
                    struct.pack(f"<{planes}Q", *self.plane_bytes),
                    _COUNT.pack(chunks),
                    struct.pack(f"<{chunks}Q", *self.chunk_sums),
                )
            )
        except struct.error as err:
            raise ValueError(f"a seal of impossible values: {err}") from None

    @staticmethod
    def from_bytes(encoded: bytes) -> Seal:
        """Reads what ``to_bytes`` wrote."""
        try:
            version, content_id, planes = _HEAD.unpack_from(encoded)
            at = _HEAD.size
            plane_bytes = struct.unpack_from(f"<{planes}Q", encoded, at)
            at += 8 * planes
            (chunks,) = _COUNT.unpack_from(encoded, at)
            at += _COUNT.size
            chunk_sums = struct.unpack_from(f"<{chunks}Q", encoded, at)
        except struct.error:
            raise ValueError(f"a seal that is cut short after {len(encoded)} bytes") from None
        if version != _VERSION:
            raise ValueError(f"a seal of version {version}, known is {_VERSION}")
        if len(encoded) != at + 8 * chunks:
            raise ValueError("a seal with something behind it")
        return Seal(content_id, plane_bytes, chunk_sums)


def room(planes: int) -> int:
    """The most bytes that a seal of a block of so many planes has."""
    chunks = BLOCK_MAX // CHUNK_BYTES + planes
    return _HEAD.size + 8 * planes + _COUNT.size + 8 * chunks
