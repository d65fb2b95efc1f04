"""Every call on a store of this process."""

from __future__ import annotations

import dataclasses
import mmap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CAPACITY, MIB, block_hash, content

from sealstone import (
    ClosedError,
    GetBlock,
    HashScheme,
    Layout,
    LayoutMismatchError,
    Namespace,
    OpenError,
    Parallel,
    Part,
    Plane,
    PutBlock,
    Quantisation,
    Seal,
    Status,
    Store,
    UnavailableError,
)

TWO_PLANES = Layout(
    model="test",
    weights_digest="r1",
    dtype="bf16",
    kv_layout="NHD",
    tokens_per_block=16,
    layers=2,
    kv_heads=2,
    head_size=64,
    planes=(Plane("k", 100_000), Plane("v")),
    tp=Parallel(8, 3),
    pp=Parallel.any(),
    cp=Parallel.any(),
    rope="none",
    attention="gqa",
    hybrid_kv_manager="off",
    engine="test",
    layout_version="1",
    hash=HashScheme("sha256", 32, "none"),
    extra={"a": "b"},
)


def test_put_and_get(blocks: Namespace) -> None:
    sizes = [1, 100, 4096, 65536, 65537, MIB, 3 * MIB + 17]
    keys = [block_hash(s) for s in sizes]
    put = blocks.put([(k, content(s, s)) for k, s in zip(keys, sizes, strict=True)])
    assert all(
        p.ok and not p.existed and p.written_bytes > s for p, s in zip(put, sizes, strict=True)
    )
    into = [bytearray(s) for s in sizes]
    got = blocks.get(list(zip(keys, into, strict=True)))
    for g, data, size in zip(got, into, sizes, strict=True):
        assert g and g.status is Status.OK and g.bytes == size and g.reason == ""
        assert g.verified_bytes >= size and g.seal is None
        assert data == content(size, size)


def test_second_put_is_known(blocks: Namespace) -> None:
    h = block_hash(1)
    blocks.put([(h, b"first")])
    [same, other] = blocks.put([(h, b"first"), (h, b"other")])
    assert same.ok and same.existed and not same.differs and same.written_bytes == 0
    assert other.ok and other.existed and other.differs
    into = bytearray(5)
    assert blocks.get([(h, into)])[0].ok and into == b"first"


def test_durable(blocks: Namespace) -> None:
    [put] = blocks.put([(block_hash(1), b"data")], durable=True)
    assert put.ok and put.durable


def test_equal_content_is_shared(blocks: Namespace) -> None:
    data = content("shared", MIB)
    blocks.put([(block_hash(0), data)], durable=True)
    # It can be shared once it is in the index, soon after.
    for key in range(1, 1000):
        [put] = blocks.put([(block_hash(key), data)])
        assert put.ok
        if put.shared:
            assert put.written_bytes < MIB
            break
        time.sleep(0.01)
    else:
        pytest.fail("equal content was never shared")


def test_miss_touches_nothing(blocks: Namespace) -> None:
    into = bytearray(b"old")
    [got] = blocks.get([(block_hash("nothing"), into)])
    assert got.status is Status.MISS and not got and into == b"old"


@pytest.mark.parametrize("size", [4, 6])
def test_wrong_room(blocks: Namespace, size: int) -> None:
    blocks.put([(block_hash(1), b"12345")])
    into = bytearray(b"x" * size)
    [got] = blocks.get([(block_hash(1), into)])
    assert got.status is Status.LENGTH_MISMATCH and got.reason
    assert into == b"x" * size


def test_destinations(blocks: Namespace) -> None:
    """The same block into all kinds of memory, in one batch."""
    data = content(1, 98304)
    h = block_hash(1)
    blocks.put([(h, data)])
    whole = np.zeros((3, 8192), dtype=np.float32)
    address = np.zeros(98304, dtype=np.uint8)
    pieces: list[Any] = [bytearray(1), np.zeros(98302, np.uint8), memoryview(bytearray(1))]
    surrounded = bytearray(b"#" * (98304 + 20))
    into: list[Any] = [
        bytearray(98304),
        whole,
        (address.ctypes.data, address.nbytes),
        pieces,
        memoryview(surrounded)[10:-10],
    ]
    assert all(blocks.get([(h, i) for i in into]))
    assert into[0] == data and whole.tobytes() == data and address.tobytes() == data
    assert b"".join(bytes(p) for p in pieces) == data
    assert surrounded == b"#" * 10 + data + b"#" * 10


def test_torch(blocks: Namespace) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    source = torch.arange(5000, dtype=torch.float32).to(torch.bfloat16)
    assert blocks.put([(block_hash(1), source)])[0].ok
    into = torch.zeros(50, 100, dtype=torch.bfloat16)
    assert blocks.get([(block_hash(1), into)])[0].ok
    assert torch.equal(into.flatten(), source)
    with pytest.raises(ValueError, match="contiguous"):
        blocks.get([(block_hash(1), into.t())])


def test_sources(blocks: Namespace) -> None:
    array = np.arange(1000, dtype=np.int16)
    frozen = array.copy()
    frozen.flags.writeable = False
    given: list[Any] = [
        array,
        frozen,
        array.data,
        [array.tobytes()[:9], array.tobytes()[9:]],
    ]
    assert all(blocks.put([(block_hash(i), g) for i, g in enumerate(given)]))
    for i in range(len(given)):
        into = np.zeros_like(array)
        assert blocks.get([(block_hash(i), into)])[0].ok
        assert (into == array).all()


def test_planes_and_ranges(store: Store) -> None:
    blocks = store.namespace(TWO_PLANES, "tenant-a")
    h, k, v = block_hash(1), content("k", 100_000), content("v", 200_001)
    assert blocks.put([PutBlock(h, {"v": v, "k": k}, parent=block_hash(0))])[0].ok
    into_k, into_v, middle = bytearray(100_000), bytearray(200_001), bytearray(70_000)
    got = blocks.get(
        [
            GetBlock(h, {"v": into_v, "k": into_k}),
            GetBlock(h, Part(middle, "v", 65_530, 70_000)),
            GetBlock(h, [Part(a := bytearray(10), "k"), Part(bytearray(1), "v")]),
            GetBlock(h, [Part(b := bytearray(7), "k", 99_993), Part(c := bytearray(1), "v", 5, 1)]),
            GetBlock(h, {"w": bytearray(1)}),
        ]
    )
    assert [g.status for g in got] == [
        Status.OK,
        Status.OK,
        Status.LENGTH_MISMATCH,
        Status.OK,
        Status.INVALID,
    ]
    assert '"w"' in got[4].reason
    assert into_k == k and into_v == v
    assert middle == v[65_530:135_530] and a == bytes(10)
    assert b == k[-7:] and c == v[5:6]
    assert got[1].verified_bytes < 200_001  # only its chunks


def test_planes_that_do_not_fit(store: Store) -> None:
    blocks = store.namespace(TWO_PLANES)
    put = blocks.put(
        [
            PutBlock(block_hash(1), {"k": bytes(100_000)}),
            PutBlock(block_hash(2), {"k": bytes(99_999), "v": b"1"}),
            PutBlock(block_hash(3), {"k": bytes(100_000), "v": b"1"}),
        ]
    )
    assert [p.ok for p in put] == [False, False, True]
    assert all(p.reason for p in put[:2])


def test_a_bad_block_fails_alone(blocks: Namespace) -> None:
    put = blocks.put(
        [(b"short", b"1"), (block_hash(1), b"fine"), (block_hash(2), bytes(4 * MIB + 1))]
    )
    assert [p.status for p in put] == [Status.INVALID, Status.OK, Status.TOO_LARGE]
    assert "hash" in put[0].reason and put[2].reason


def test_seal(blocks: Namespace) -> None:
    h, data = block_hash(1), content(1, 150_000)
    blocks.put([(h, data)])
    [got] = blocks.get([(h, bytearray(150_000))], want_seal=True)
    assert got.seal and got.seal.plane_bytes == (150_000,) and len(got.seal.chunk_sums) == 3
    other = content(2, 150_000)
    sealed = [PutBlock(block_hash(i), d, seal=got.seal) for i, d in ((2, data), (3, other))]
    fits, differs = blocks.put(sealed)
    assert fits.ok
    assert not differs.ok and differs.reason
    assert blocks.exists([block_hash(2), block_hash(3)]) == [Status.OK, Status.MISS]
    wrong = PutBlock(block_hash(4), data, seal=b"no seal")
    assert not blocks.put([wrong])[0].ok


def test_seals_of_a_batch(blocks: Namespace) -> None:
    keys = [block_hash(i) for i in range(5)]
    blocks.put([(k, content(k, 70_000)) for k in keys])
    asked = [(k, bytearray(70_000)) for k in keys] + [(block_hash("none"), bytearray(1))]
    got = blocks.get(asked, want_seal=True)
    seals = [g.seal for g in got]
    assert seals[5] is None
    assert len({s.content_id for s in seals[:5] if isinstance(s, Seal)}) == 5


def test_exists_touch_drop(blocks: Namespace) -> None:
    here, gone = block_hash(1), block_hash(2)
    blocks.put([(here, b"1"), (gone, b"2")])
    assert blocks.exists([here, gone, block_hash(3)]) == [Status.OK, Status.OK, Status.MISS]
    assert blocks.touch([here, block_hash(3)]) == [Status.OK, Status.MISS]
    dropped = blocks.drop([gone, block_hash(3)])
    assert [d.status for d in dropped] == [Status.OK, Status.MISS]
    assert blocks.exists([here, gone]) == [Status.OK, Status.MISS]
    assert blocks.exists([]) == [] and blocks.get([]) == [] and blocks.put([]) == []


def test_lookup_now(blocks: Namespace) -> None:
    blocks.put([(block_hash(i), b"1") for i in range(10)])
    found = blocks.lookup_now([block_hash(i) for i in range(20)])
    assert len(found) == 20
    # Memory may not know; it must not claim what is not so.
    assert set(found[:10]) <= {Status.OK, Status.TIMEOUT}
    assert Status.OK in found[:10]
    assert set(found[10:]) <= {Status.MISS, Status.TIMEOUT, Status.OK}
    assert blocks.lookup_now([]) == []
    with pytest.raises(ValueError, match="16 to 64"):
        blocks.lookup_now([b"short"])


def test_match(blocks: Namespace) -> None:
    keys = [block_hash(i) for i in range(6)]
    parents: list[bytes | None] = [None, *keys]
    blocks.put([PutBlock(k, b"kv", p) for k, p in zip(keys[:4], parents, strict=False)])
    blocks.put([(keys[5], b"kv")])
    with blocks.match(keys) as lease:
        assert lease.blocks == 4 and lease.held
        assert lease.renew()
    assert not lease.held and not lease.renew()
    lease.release()
    nothing = blocks.match([block_hash("none")])
    assert nothing.blocks == 0
    assert blocks.match([]).blocks == 0
    with pytest.raises(ValueError, match="16 to 64"):
        blocks.match([b"short"])


def test_bump_epoch(blocks: Namespace) -> None:
    h = block_hash(1)
    blocks.put([(h, b"old weights")])
    new = blocks.bump_epoch()
    assert new.info.epoch == blocks.info.epoch + 1
    assert new.info.fingerprint == blocks.info.fingerprint
    assert blocks.get([(h, bytearray(11))])[0].status is Status.STALE_EPOCH
    assert new.get([(h, bytearray(11))])[0].status is Status.MISS
    assert new.put([(h, b"new weights")])[0].ok
    with pytest.raises(UnavailableError) as refused:
        blocks.bump_epoch()
    assert refused.value.status is Status.STALE_EPOCH


def test_tenants_are_kept_apart(store: Store) -> None:
    ours = store.namespace(Layout.opaque("x"), "ours")
    theirs = store.namespace(Layout.opaque("x"), "theirs")
    ours.put([(block_hash(1), b"secret")])
    assert theirs.exists([block_hash(1)]) == [Status.MISS]
    assert (ours.info.tenant, theirs.info.tenant) == ("ours", "theirs")


def test_info(blocks: Namespace) -> None:
    info = blocks.info
    assert info.planes == ("value",) and info.tenant == "default" and info.number == 1
    assert len(bytes.fromhex(info.fingerprint)) == 16
    assert "default" in repr(blocks)


def test_layout_mismatch(store: Store) -> None:
    near = dataclasses.replace(TWO_PLANES, tp=Parallel.any(), hybrid_kv_manager="on")
    store.namespace(TWO_PLANES).put([PutBlock(block_hash(1), {"k": bytes(100_000), "v": b"1"})])
    with pytest.raises(LayoutMismatchError, match="hybrid_kv_manager") as mismatch:
        store.namespace(near, require_match=True)
    found = {d.field: (d.stored, d.asked) for d in mismatch.value.differences}
    assert found["hybrid_kv_manager"] == ('"off"', '"on"')
    assert found["tp"] == ("rank 3 of 8", "agnostic")
    assert mismatch.value.status is Status.LAYOUT_MISMATCH
    differing = store.namespace(near).info.differences
    assert {d.field for d in differing} == set(found)
    assert store.namespace(TWO_PLANES, require_match=True).info.differences == ()


@pytest.mark.parametrize("give", [lambda x: x, Layout.to_dict, Layout.to_json])
def test_fingerprint_does_not_depend_on_the_spelling(store: Store, give: Any) -> None:
    expected = store.namespace(TWO_PLANES).info.fingerprint
    assert store.namespace(give(TWO_PLANES)).info.fingerprint == expected


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ({"model": "x"}, "head_size"),
        ({**Layout.opaque("x").to_dict(), "modell": "x"}, "modell"),
        ("no JSON", "JSON"),
        ({**Layout.opaque("x").to_dict(), "kv_layout": "HDN"}, "HDN"),
    ],
)
def test_impossible_layouts(store: Store, layout: Any, said: str) -> None:
    with pytest.raises(OpenError, match=said) as refused:
        store.namespace(layout)
    assert refused.value.status is Status.INVALID


@pytest.mark.parametrize("compression", ["off", "auto", "s2", "zstd"])
def test_compression(store: Store, compression: str) -> None:
    blocks = store.namespace(Layout.opaque("x"), compression=compression)
    data = bytes(range(256)) * 1024
    [put] = blocks.put([(block_hash(1), data)])
    into = bytearray(len(data))
    assert put.ok and blocks.get([(block_hash(1), into)])[0].ok and into == data
    if compression in ("s2", "zstd"):
        assert put.written_bytes < len(data) // 2


def test_figures(store: Store, blocks: Namespace) -> None:
    blocks.put([(block_hash(1), b"x")])
    stats = store.stats()
    assert stats["mode"] == "embedded" and stats["library"]["submitted"] == 1
    assert stats["store"]["puts_total"] == {"OK": 1} and "server" not in stats
    assert {"host_tier", "paths", "direct_refused", "tenants"} <= stats.keys()
    health = store.health()
    assert health.ok and health.state == "ok" and health.reasons == ()
    assert isinstance(store.events(), list)


def test_region(store: Store, blocks: Namespace) -> None:
    memory = mmap.mmap(-1, 4 * MIB)
    data = content(1, MIB)
    blocks.put([(block_hash(1), data)])
    with store.register(memory) as region:
        with pytest.raises(BufferError):
            memory.close()
        [got] = blocks.get(
            [(block_hash(1), memoryview(memory)[MIB : 2 * MIB])], wait_for_device=True
        )
        assert got.ok and memory[MIB : 2 * MIB] == data
    region.release()
    memory.close()
    with pytest.raises(ValueError, match="one piece"):
        store.register([bytearray(1), bytearray(1)])
    with pytest.raises(ValueError, match="one piece"):
        store.register(bytearray())


def test_reopened(directory: Path) -> None:
    h, data = block_hash(1), content(1, MIB)
    with Store(dir=directory, capacity_bytes=CAPACITY, max_block_bytes=4 * MIB) as store:
        store.namespace(Layout.opaque("test")).put([(h, data)])
    assert store.closed
    with Store(dir=directory, must_exist=True, max_block_bytes=4 * MIB) as store:
        into = bytearray(MIB)
        assert store.namespace(Layout.opaque("test")).get([(h, into)])[0].ok
        assert into == data


def test_one_owner(store: Store, directory: Path) -> None:
    with pytest.raises(OpenError, match="pid") as refused:
        Store(dir=directory)
    assert refused.value.status is Status.LOCKED


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ({"must_exist": True}, Status.NO_STORE, "store"),
        ({"capacity_bytes": 4096}, Status.CAPACITY, r"\d"),
        ({"path": "telepathy"}, Status.INVALID, "telepathy"),
        ({"options": {"segment_byte": 1}}, Status.INVALID, "segment_byte"),
    ],
)
def test_open_says_why_not(directory: Path, arguments: Any, status: Status, said: str) -> None:
    with pytest.raises(OpenError, match=said) as refused:
        Store(dir=directory, **arguments)
    assert refused.value.status is status


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "either a dir or a server"),
        ({"dir": "x", "server": "unix:/x"}, "either a dir or a server"),
        ({"dir": "x", "capacity_bytes": 1, "options": {"capacity_bytes": 1}}, "twice"),
    ],
)
def test_open_with_nonsense(arguments: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Store(**arguments)


def test_paths_that_json_can_not_carry(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        Store(dir=tmp_path / "\udcff")


def test_closed(store: Store, blocks: Namespace) -> None:
    h = block_hash(1)
    blocks.put([(h, b"x")])
    lease = blocks.match([h])
    into = bytearray(1)
    store.close()
    store.close()
    calls: list[Any] = [
        lambda: blocks.get([(h, into)]),
        lambda: blocks.put([(h, into)]),
        lambda: blocks.exists([h]),
        lambda: blocks.lookup_now([h]),
        lambda: blocks.match([h]),
        blocks.bump_epoch,
        lambda: blocks.info,
        lease.renew,
        store.stats,
        store.health,
        store.events,
        lambda: store.namespace(Layout.opaque("x")),
        lambda: store.register(bytearray(1)),
    ]
    for call in calls:
        with pytest.raises(ClosedError):
            call()
    lease.release()
    blocks.close()
    into.append(1)


def test_closed_namespace(blocks: Namespace) -> None:
    with blocks:
        blocks.put([(block_hash(1), b"x")])
    blocks.close()
    into = bytearray(1)
    for call in (
        lambda: blocks.get([(block_hash(1), into)]),
        lambda: blocks.lookup_now([block_hash(1)]),
        lambda: blocks.match([block_hash(1)]),
        lambda: blocks.info,
    ):
        with pytest.raises(ClosedError):
            call()
    into.append(1)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_impossible_timeout(blocks: Namespace, timeout: float) -> None:
    into = bytearray(1)
    with pytest.raises(ValueError, match="timeout"):
        blocks.get([(block_hash(1), into)], timeout=timeout)
    into.append(1)


LLAMA = Layout(
    model="meta-llama/Llama-3.1-8B-Instruct",
    weights_digest="sha256:0e9e39f249a16976918f6564b8830bc894c89659",
    dtype="bfloat16",
    kv_layout="NHD",
    tokens_per_block=16,
    layers=32,
    kv_heads=8,
    head_size=128,
    planes=(Plane("k", MIB), Plane("v", MIB)),
    tp=Parallel(1),
    pp=Parallel(1),
    cp=Parallel(1),
    rope="llama3:theta=500000,factor=8,low=1,high=4,original=8192",
    attention="gqa",
    hybrid_kv_manager="off",
    engine="vllm",
    layout_version="1",
    hash=HashScheme(
        "sha256_cbor", 32, "4db3f9ff2d6f2a4b0a9c2b2c3a3d2f0f5f6f6c1b1b0d9d8b3a0e7e5d4c3b2a19"
    ),
)
QUANTISED = dataclasses.replace(
    LLAMA,
    model="meta-llama/Llama-3.1-70B-Instruct",
    dtype="fp8_e4m3",
    kv_layout="HND",
    layers=80,
    planes=(Plane("k", 163840), Plane("v", 163840), Plane("k_scale", 5120), Plane("v_scale", 5120)),
    tp=Parallel(8, 3),
    adapter_digest="sha256:aa11",
    quantisation=Quantisation("fp8_e4m3", "per-token-head"),
    hybrid_kv_manager="on",
    extra={"attention_backend": "FLASH_ATTN", "block_pool": "0"},
)
LATENT = dataclasses.replace(
    LLAMA,
    model="deepseek-ai/DeepSeek-V3",
    kv_layout="custom:mla-latent",
    tokens_per_block=64,
    layers=61,
    kv_heads=1,
    head_size=576,
    planes=(Plane("latent"), Plane("indexer")),
    tp=Parallel.any(),
    attention="mla",
    hash=dataclasses.replace(LLAMA.hash, root="none"),
)


@pytest.mark.parametrize(
    ("layout", "fingerprint"),
    [
        (LLAMA, "f39f08c8cee125540eaa73a666b2d783"),
        (QUANTISED, "2526076f61beeb98f2652fd512fa8f77"),
        (LATENT, "2a1f3a4868074067b3641751fc1436f2"),
    ],
)
def test_vectors_of_the_format(store: Store, layout: Layout, fingerprint: str) -> None:
    """Those of docs/format/layout.md."""
    assert store.namespace(layout).info.fingerprint == fingerprint
