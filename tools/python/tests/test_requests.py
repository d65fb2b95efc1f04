"""Requests as the library gets them, and what is refused before it does."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from conftest import block_hash
from double import _item
from hypothesis import given
from hypothesis import strategies as st

from sealstone import GetBlock, Part, PutBlock, Seal, _abi
from sealstone._requests import Batch, get_batch, hash_batch, joined, put_batch
from sealstone._seal import room

H = block_hash(1)


def items(batch: Batch) -> list[dict[str, Any]]:
    batch.build()
    return [_item(i) for i in _abi.ITEM.iter_unpack(batch.items)]


def shape(item: dict[str, Any]) -> list[tuple[str, list[int], int, int]]:
    return [
        (p["plane"], [length for _, length in p["spans"]], p["offset"], p["length"])
        for p in item["parts"]
    ]


def test_sizes_are_those_of_the_header() -> None:
    sizes = {
        _abi.SPAN: 16,
        _abi.PART: 40,
        _abi.ITEM: 64,
        _abi.OPTIONS: 24,
        _abi.RESULT: 32,
        _abi.COMPLETION: 40,
    }
    assert {packed.format: packed.size for packed in sizes} == {
        packed.format: size for packed, size in sizes.items()
    }


def test_put() -> None:
    seal = Seal(bytes(16), (8,), (1, 2))
    first, second = items(
        put_batch(
            [
                (H, b"value"),
                PutBlock(
                    bytearray(block_hash(2)),
                    {"k": b"1234", "v": [b"12", b"", memoryview(b"345")]},
                    parent=H,
                    seal=seal,
                ),
            ]
        )
    )
    assert first["hash"] == H and first["parent"] is None and first["seal"] == (0, 0)
    assert shape(first) == [("", [5], 0, 0)]
    assert second["hash"] == block_hash(2) and second["parent"] == H
    assert second["seal"][1] == len(seal.to_bytes())
    assert shape(second) == [("k", [4], 0, 0), ("v", [2, 3], 0, 0)]


def test_get() -> None:
    into = bytearray(10)
    got = items(
        get_batch(
            [
                (H, into),
                GetBlock(H, [bytearray(1), bytearray(2)]),
                GetBlock(H, {"k": bytearray(3), "v": bytearray(4)}),
                GetBlock(H, Part(bytearray(5), offset=7)),
                (H, [Part(bytearray(5), "k", 7, 5), Part(bytearray(6), "v")]),
            ]
        )
    )
    assert [shape(i) for i in got] == [
        [("", [10], 0, 0)],
        [("", [1, 2], 0, 0)],
        [("k", [3], 0, 0), ("v", [4], 0, 0)],
        [("", [5], 7, 0)],
        [("k", [5], 7, 5), ("v", [6], 0, 0)],
    ]


def test_room_for_seals() -> None:
    batch = get_batch([(H, bytearray(1)), (H, bytearray(1))])
    batch.want_seals(3)
    addresses = [i["seal"] for i in items(batch)]
    assert [length for _, length in addresses] == [room(3)] * 2
    assert addresses[1][0] - addresses[0][0] == room(3)
    batch.pins.release()


@pytest.mark.parametrize(
    ("block", "error", "said"),
    [
        (("text", b""), TypeError, "a block hash is bytes, not str"),
        ((H,), TypeError, "a pair"),
        ([H, b"x"], TypeError, "a pair"),
        (H, TypeError, "a pair"),
        ((H, "text"), TypeError, "no memory"),
        (PutBlock(H, {"a\0b": b""}), ValueError, "names no plane"),
        (PutBlock(H, b"", seal=Seal(b"short", (), ())), ValueError, "content id"),
    ],
)
def test_put_of_nonsense(block: Any, error: type[Exception], said: str) -> None:
    held = bytearray(1)
    with pytest.raises(error, match=said):
        put_batch([(H, held), block])
    held.append(1)  # let go of


@pytest.mark.parametrize(
    ("into", "error", "said"),
    [
        (b"read-only", ValueError, "receive bytes"),
        ([Part(bytearray(1)), bytearray(1)], TypeError, "not of both"),
        (Part(bytearray(1), offset=-1), ValueError, "range"),
        (Part(bytearray(1), length=-1), ValueError, "range"),
    ],
)
def test_get_of_nonsense(into: Any, error: type[Exception], said: str) -> None:
    held = bytearray(1)
    with pytest.raises(error, match=said):
        get_batch([(H, held), (H, into)])
    held.append(1)


def test_too_many_blocks() -> None:
    with pytest.raises(ValueError, match="at most 65536"):
        hash_batch([H] * 65537)


def test_one_hash_is_not_hashes() -> None:
    for take in (hash_batch, joined):
        with pytest.raises(TypeError, match="a list of one"):
            take(H)  # type: ignore[arg-type]


def test_joined() -> None:
    assert joined([H, bytearray(H)]) == (H + H, 32, 2)
    assert joined([]) == (b"", 32, 0)
    with pytest.raises(ValueError, match="one length"):
        joined([H, H[:16], H[:16] + H])
    with pytest.raises(TypeError, match="bytes"):
        joined(["text"])  # type: ignore[list-item]


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=16, max_size=64),
            st.none() | st.binary(min_size=16, max_size=64),
            st.dictionaries(st.sampled_from("abcd"), st.lists(st.binary(max_size=9))),
        ),
        max_size=8,
    )
)
def test_any_put(blocks: list[tuple[bytes, bytes | None, dict[str, list[bytes]]]]) -> None:
    batch = put_batch(PutBlock(h, planes, parent) for h, parent, planes in blocks)
    read = [
        (
            i["hash"],
            i["parent"],
            {p["plane"]: [ctypes.string_at(*s) for s in p["spans"]] for p in i["parts"]},
        )
        for i in items(batch)
    ]
    batch.pins.release()
    assert read == [
        (h, parent, {name: [d for d in data if d] for name, data in planes.items()})
        for h, parent, planes in blocks
    ]


@given(
    st.binary(min_size=16, max_size=16),
    st.lists(st.integers(0, 2**64 - 1), max_size=5).map(tuple),
    st.lists(st.integers(0, 2**64 - 1), max_size=40).map(tuple),
)
def test_seal_and_back(content_id: bytes, planes: Any, chunks: Any) -> None:
    seal = Seal(content_id, planes, chunks)
    encoded = seal.to_bytes()
    assert Seal.from_bytes(encoded) == seal
    assert len(encoded) == 25 + 8 * (len(planes) + len(chunks))
    for cut in range(len(encoded)):
        with pytest.raises(ValueError, match="seal"):
            Seal.from_bytes(encoded[:cut])
    with pytest.raises(ValueError, match="behind"):
        Seal.from_bytes(encoded + b"x")
    with pytest.raises(ValueError, match="version 2"):
        Seal.from_bytes(b"\2" + encoded[1:])


def test_seal_of_impossible_values() -> None:
    for seal in (Seal(bytes(16), (-1,), ()), Seal(bytes(16), (), (2**64,))):
        with pytest.raises(ValueError, match="impossible"):
            seal.to_bytes()
