"""Blocks as the caller names them, and as the C interface takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, Union

from . import _abi
from ._buffers import Pins, Scatter, Span
from ._seal import Seal, room

Hash: TypeAlias = bytes | bytearray | memoryview
"""A block hash, 16 to 64 bytes."""


@dataclass(frozen=True)
class PutBlock:
    """A block to store.

    ``data`` is the memory of the only plane, or a dict from plane names to the
    memory of each. A list of pieces is stored as one, in order.
    """

    hash: Hash
    data: Scatter | Mapping[str, Scatter]
    parent: Hash | None = None
    """The hash of the block before it in the prefix; None at the root."""
    seal: Seal | bytes | None = None
    """What the sums of the bytes have to come to."""


@dataclass(frozen=True)
class Part:
    """A destination for one plane, or a range of it."""

    into: Scatter
    plane: str = ""
    """May be left out where the layout has just one."""
    offset: int = 0
    """Where the range begins within the plane."""
    length: int = 0
    """Bytes of the range, which ``into`` has to have room for exactly; 0 means to
    the end of the plane."""


@dataclass(frozen=True)
class GetBlock:
    """A block to read.

    ``into`` is memory for the only plane, or a dict from plane names to memory,
    or a ``Part`` or several for ranges. Memory has to have exactly the room
    that is needed. A list of pieces is filled in order.
    """

    hash: Hash
    into: Scatter | Mapping[str, Scatter] | Part | list[Part]


PutLike: TypeAlias = Union[PutBlock, "tuple[Hash, Scatter | Mapping[str, Scatter]]"]
GetLike: TypeAlias = Union[
    GetBlock, "tuple[Hash, Scatter | Mapping[str, Scatter] | Part | list[Part]]"
]


@dataclass(slots=True)
class _Item:
    """An item, with places in the batch's lists instead of addresses."""

    hash: Span
    parent: Span
    seal: Span
    first_part: int
    parts: int


class Batch:
    """The items of one submit, and what has to stay while they are under way."""

    def __init__(self) -> None:
        self.pins = Pins()
        self.items = b""
        """The array that submit takes, after ``build``."""
        self.seals: list[memoryview] = []
        """Room for the seal of each item, if wanted."""
        self._blob = bytearray()  # hashes, parents, plane names and seals to check
        self._names: dict[str, int] = {}
        self._spans: list[bytes] = []
        self._parts: list[tuple[int, int, int, int, int]] = []
        self._items: list[_Item] = []
        self._lists: list[bytes] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, hash_: Hash, parent: Hash | None = None, seal: bytes = b"") -> None:
        """Begins an item; ``part`` gives it parts."""
        self._items.append(
            _Item(
                self._text(hash_), self._text(parent or b""), self._text(seal), len(self._parts), 0
            )
        )

    def part(self, plane: str, spans: list[Span], offset: int = 0, length: int = 0) -> None:
        """Appends a part to the item that was begun last."""
        if offset < 0 or length < 0:
            raise ValueError(f"a range of {length} bytes at {offset}")
        self._parts.append((self._name(plane), len(self._spans), len(spans), offset, length))
        self._spans += [_abi.SPAN.pack(*s) for s in spans]
        self._items[-1].parts += 1

    def want_seals(self, planes: int) -> None:
        """Makes room for the seal of each item."""
        size = room(planes)
        whole = memoryview(bytearray(size * len(self)))
        self.seals = [whole[i * size : (i + 1) * size] for i in range(len(self))]

    def build(self) -> None:
        """Lays the items out. The lists they lead to live as long as the batch."""
        blob = self._address(bytes(self._blob))
        spans = self._address(b"".join(self._spans))
        pack_part, pack_item = _abi.PART.pack, _abi.ITEM.pack
        parts = self._address(
            b"".join(
                pack_part(blob + name, spans + first * _abi.SPAN.size, count, 0, offset, length)
                for name, first, count, offset, length in self._parts
            )
        )
        rooms = [self.pins.destination(r)[0] for r in self.seals]
        packed = []
        for i, item in enumerate(self._items):
            (hash_at, hash_len), (parent_at, parent_len), (seal_at, seal_len) = (
                item.hash,
                item.parent,
                item.seal,
            )
            seal = rooms[i] if rooms else (blob + seal_at if seal_len else 0, seal_len)
            packed.append(
                pack_item(
                    blob + hash_at,
                    blob + parent_at if parent_len else 0,
                    hash_len,
                    parent_len,
                    parts + item.first_part * _abi.PART.size if item.parts else 0,
                    item.parts,
                    seal[1],
                    seal[0],
                    0,
                    0,
                )
            )
        self.items = b"".join(packed)

    def _address(self, data: bytes) -> int:
        """The address of data, which lives as long as the batch."""
        self._lists.append(data)
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0

    def _text(self, data: Hash) -> Span:
        """Place and length of data in the blob."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"a block hash is bytes, not {type(data).__name__}")
        at = len(self._blob)
        self._blob += data
        return at, len(self._blob) - at

    def _name(self, plane: str) -> int:
        """The place of a plane's name, ended by NUL, in the blob."""
        if (at := self._names.get(plane)) is None:
            if "\0" in plane:
                raise ValueError(f"{plane!r} names no plane")
            at = self._names[plane] = self._text(plane.encode() + b"\0")[0]
        return at


def put_batch(blocks: Iterable[PutLike]) -> Batch:
    """The batch of a put."""

    def add(batch: Batch, block: PutLike) -> None:
        b = block if isinstance(block, PutBlock) else PutBlock(*_pair(block, "PutBlock"))
        seal = b.seal.to_bytes() if isinstance(b.seal, Seal) else b.seal or b""
        batch.add(b.hash, b.parent, seal)
        planes = b.data if isinstance(b.data, Mapping) else {"": b.data}
        for plane, scatter in planes.items():
            batch.part(plane, batch.pins.source(scatter))

    return _batch(blocks, add)


def get_batch(blocks: Iterable[GetLike]) -> Batch:
    """The batch of a get."""

    def add(batch: Batch, block: GetLike) -> None:
        b = block if isinstance(block, GetBlock) else GetBlock(*_pair(block, "GetBlock"))
        batch.add(b.hash)
        for part in _parts(b.into):
            spans = batch.pins.destination(part.into)
            batch.part(part.plane, spans, part.offset, part.length)

    return _batch(blocks, add)


def hash_batch(hashes: Iterable[Hash]) -> Batch:
    """The batch of a call that names blocks and no memory."""
    return _batch(_hashes(hashes), Batch.add)


_T = TypeVar("_T")


def _batch(blocks: Iterable[_T], add: Callable[[Batch, _T], None]) -> Batch:
    batch = Batch()
    try:
        for block in blocks:
            add(batch, block)
    except BaseException:
        batch.pins.release()
        raise
    if len(batch) > _abi.ITEMS_MAX:
        batch.pins.release()
        raise ValueError(f"{len(batch)} blocks in one call, at most {_abi.ITEMS_MAX} are allowed")
    return batch


def _parts(into: object) -> list[Part]:
    if isinstance(into, Part):
        return [into]
    if isinstance(into, Mapping):
        return [Part(scatter, plane) for plane, scatter in into.items()]
    if isinstance(into, list) and any(isinstance(p, Part) for p in into):
        if not all(isinstance(p, Part) for p in into):
            raise TypeError("a list is of Parts or of memory, not of both")
        return into
    return [Part(into)]


def _pair(block: object, kind: str) -> tuple[Any, Any]:
    if not isinstance(block, tuple) or len(block) != 2:
        raise TypeError(f"a block is a {kind} or a pair (hash, memory), not {block!r:.80}")
    return block


def _hashes(hashes: Iterable[Hash]) -> Iterable[Hash]:
    """Refuses one hash where several are meant: it would be a list of numbers."""
    if isinstance(hashes, (bytes, bytearray, memoryview, str)):
        raise TypeError("hashes are a list of bytes; one hash is a list of one")
    return hashes


def joined(hashes: Sequence[Hash]) -> tuple[bytes, int, int]:
    """Hashes one behind the other, the length of each, and how many."""
    hashes = list(_hashes(hashes))
    try:
        together = b"".join(hashes)
    except TypeError:
        raise TypeError("block hashes are bytes") from None
    if not hashes:
        return b"", 32, 0
    length = len(hashes[0])
    if len(together) != length * len(hashes) or any(len(h) != length for h in hashes):
        raise ValueError("the hashes of one look-up have one length")
    if len(hashes) > _abi.LOOKUP_MAX:
        raise ValueError(f"{len(hashes)} hashes in one call, at most {_abi.LOOKUP_MAX} are allowed")
    return together, length, len(hashes)
