"""The same package as the client of a server, and any Redis client beside it."""

from __future__ import annotations

import asyncio
import hashlib
import mmap
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pytest
import redis
from conftest import BINARY, MIB, block_hash, content, run_python

from sealstone import (
    GetBlock,
    Layout,
    LayoutMismatchError,
    Namespace,
    OpenError,
    Parallel,
    Part,
    PutBlock,
    Status,
    Store,
)

LAYOUT = Layout.opaque("server")

if not BINARY.is_file():
    raise pytest.UsageError(f"{BINARY} is not there: run `make build`")


@dataclass
class Server:
    """`sealstone serve` on a directory, with a Unix socket and a port of its own."""

    directory: Path
    arguments: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None
    port: int = 0
    log: TextIO = field(init=False)

    @property
    def socket(self) -> Path:
        return self.directory.with_suffix(".sock")

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    def start(self) -> None:
        self.log = self.directory.with_suffix(".log").open("a+")
        self.process = subprocess.Popen(
            [
                *(BINARY, "serve", "--dir", self.directory, "--unix", self.socket),
                *("--listen", "127.0.0.1:0", "--http", "off"),
                *("--capacity", "256MiB", "--max-block", "4MiB", *self.arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        assert self.process.stdout
        said = self.process.stdout.readline()
        port = re.search(r"127\.0\.0\.1:(\d+)", said)
        assert port, f"the server said {said!r}"
        self.port = int(port[1])

    def stop(self, by: int = signal.SIGTERM) -> None:
        """Ends it; by SIGTERM it ends in order."""
        assert self.process
        assert self.process.stdout
        self.process.send_signal(by)
        self.process.stdout.read()
        status = self.process.wait(60)
        self.process.stdout.close()
        self.process = None
        self.log.seek(0)
        said = self.log.read()
        self.log.close()
        assert status == (0 if by == signal.SIGTERM else -by), said


@pytest.fixture
def server(short_path: Path) -> Iterator[Server]:
    made = Server(short_path / "store")
    made.start()
    yield made
    if made.process:
        made.stop()


@pytest.fixture
def short_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names of sockets have little more than 100 bytes."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def client(server: Server) -> Iterator[Store]:
    with Store(server=server.address) as opened:
        yield opened


@pytest.fixture
def remote(client: Store) -> Namespace:
    return client.namespace(LAYOUT)


def test_every_call(client: Store, remote: Namespace) -> None:
    sizes = [1, 5000, 65_537, 2 * MIB]
    keys = [block_hash(s) for s in sizes]
    assert all(remote.put([(k, content(s, s)) for k, s in zip(keys, sizes, strict=True)]))
    into = [bytearray(s) for s in sizes]
    assert all(remote.get(list(zip(keys, into, strict=True))))
    assert into == [content(s, s) for s in sizes]
    assert remote.exists([keys[0], block_hash("no")]) == [Status.OK, Status.MISS]
    assert remote.touch([keys[0]]) == [Status.OK]
    assert remote.lookup_now([keys[0]]) == [Status.TIMEOUT]  # memory is elsewhere
    with remote.match(keys) as lease:
        assert lease.blocks == len(keys)
        assert lease.renew()
    part = bytearray(70_000)
    [got] = remote.get(
        [GetBlock(keys[3], Part(part, offset=100_000, length=70_000))], want_seal=True
    )
    assert got.ok and got.seal and part == content(2 * MIB, 2 * MIB)[100_000:170_000]
    [sealed] = remote.put(
        [PutBlock(block_hash("sealed"), content(2 * MIB, 2 * MIB), parent=keys[0], seal=got.seal)],
        durable=True,
    )
    assert sealed.ok and sealed.durable
    [again] = remote.put([(keys[0], b"x")])
    assert again.existed and again.differs
    assert remote.drop([keys[0]])[0].ok
    untouched = bytearray(b"x")
    assert remote.get([(keys[0], untouched)])[0].status is Status.MISS
    assert untouched == b"x"
    new = remote.bump_epoch()
    assert remote.exists([keys[1]]) == [Status.STALE_EPOCH]
    assert new.exists([keys[1]]) == [Status.MISS]
    stats = client.stats()
    assert stats["mode"] == "server" and stats["store"]["puts_total"]["OK"] >= 1
    assert stats["server"]["connections"] >= 1
    assert client.health().ok


def test_layout_mismatch(client: Store, remote: Namespace) -> None:
    near = {**LAYOUT.to_dict(), "dtype": "words", "tp": {"size": 2, "rank": 1}}
    remote.put([(block_hash(1), b"x")])
    with pytest.raises(LayoutMismatchError) as mismatch:
        client.namespace(near, require_match=True)
    assert {d.field for d in mismatch.value.differences} == {"dtype", "tp"}
    assert client.namespace(near).info.fingerprint != remote.info.fingerprint
    assert Parallel(**near["tp"]).rank == 1


def test_two_clients_share(server: Server) -> None:
    with Store(server=server.address) as one, Store(server=server.address) as other:
        one.namespace(LAYOUT).put([(block_hash(1), b"shared")])
        into = bytearray(6)
        assert other.namespace(LAYOUT).get([(block_hash(1), into)])[0].ok
        assert into == b"shared"


def test_shared_memory(client: Store, remote: Namespace) -> None:
    """Blocks travel as offsets in a file that both map."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, 4 * MIB)
    with mmap.mmap(fd, 4 * MIB) as memory, client.register(memory, fd):
        data = content(1, MIB)
        memory[:MIB] = data
        with memoryview(memory) as view, view[:MIB] as source, view[2 * MIB : 3 * MIB] as into:
            assert remote.put([(block_hash(1), source)])[0].ok
            assert remote.get([(block_hash(1), into)], wait_for_device=True)[0].ok
            assert into == data
            assert bytes(view[MIB : 2 * MIB]) == bytes(MIB)
    os.close(fd)


def test_threads_and_loops(client: Store, remote: Namespace) -> None:
    data = {block_hash(i): content(i, 100_000) for i in range(8)}
    assert all(remote.put(data.items()))
    failed: list[object] = []

    def thread() -> None:
        for h, expected in list(data.items()) * 3:
            into = bytearray(100_000)
            if not remote.get([(h, into)])[0].ok or into != expected:
                failed.append(h)

    async def loop() -> None:
        memory = [(h, bytearray(100_000)) for h in list(data) * 3]
        got = await asyncio.gather(*(remote.aget([m]) for m in memory))
        failed.extend(
            h for g, (h, m) in zip(got, memory, strict=True) if not g[0].ok or m != data[h]
        )

    threads = [threading.Thread(target=thread) for _ in range(4)]
    threads.append(threading.Thread(target=lambda: asyncio.run(loop())))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_fault_server_killed(server: Server, client: Store, remote: Namespace) -> None:
    """Statuses while it is away, the same bytes when it is back."""
    data = {block_hash(i): content(i, 200_000) for i in range(8)}
    assert all(remote.put(data.items()))
    server.stop(signal.SIGKILL)
    into = bytearray(b"\xa5" * 200_000)
    [away] = remote.get([(block_hash(1), into)], timeout=1)
    assert away.status in (Status.IO_ERROR, Status.TIMEOUT, Status.MISS, Status.UNAVAILABLE)
    assert into == b"\xa5" * 200_000
    server.start()
    for h, expected in data.items():
        for _ in range(600):
            into = bytearray(200_000)
            [got] = remote.get([(h, into)], timeout=10)
            if got.ok:
                break
        assert got.ok, got
        assert into == expected


def test_fault_flipped_byte(server: Server, short_path: Path) -> None:
    with Store(server=server.address) as client:
        blocks = client.namespace(LAYOUT)
        assert all(blocks.put([(block_hash(i), content(i, 150_000)) for i in range(4)]))
    server.stop()
    for segment in server.directory.glob("segments/*/*.seg"):
        raw = bytearray(segment.read_bytes())
        if (at := raw.find(content(2, 150_000)[:4096])) >= 0:
            raw[at + 77_777] ^= 1
            segment.write_bytes(raw)
    server.start()
    with Store(server=server.address) as client:
        blocks = client.namespace(LAYOUT)
        into = [bytearray(150_000) for _ in range(4)]
        got = blocks.get([(block_hash(i), m) for i, m in enumerate(into)])
    assert [g.status for g in got] == [Status.OK, Status.OK, Status.CORRUPT, Status.OK]
    expected = [content(i, 150_000) for i in range(4)]
    expected[2] = bytes(150_000)
    assert into == expected


def test_server_that_is_not_there(short_path: Path) -> None:
    with pytest.raises(OpenError) as refused:
        Store(server=f"unix:{short_path}/none.sock", call_timeout=2)
    assert refused.value.status is Status.UNAVAILABLE


def test_tokens(short_path: Path) -> None:
    """The tenant is that of the token, and without one there is no way in."""
    tokens = short_path / "tokens.toml"
    secret = "a token of some length, not to be guessed"
    tokens.touch(0o600)
    tokens.write_text(
        "[[token]]\n"
        f'name = "a"\nsha256 = "{hashlib.sha256(secret.encode()).hexdigest()}"\n'
        'tenant = "team-a"\nrights = ["read", "write"]\n'
    )
    server = Server(short_path / "store", ["--tokens", str(tokens)])
    server.start()
    try:
        with Store(server=server.address, token=secret) as client:
            blocks = client.namespace(LAYOUT, "team-a")
            assert blocks.put([(block_hash(1), b"x")])[0].ok
            assert blocks.info.tenant == "team-a"
            with pytest.raises(OpenError):
                client.namespace(LAYOUT, "team-b")
        with pytest.raises(OpenError) as refused:
            Store(server=server.address, token="wrong")
        assert refused.value.status is Status.DENIED
    finally:
        server.stop()


def test_fork(server: Server) -> None:
    done = run_python(
        """
import os, sys, warnings
warnings.simplefilter("ignore")
import sealstone
store = sealstone.Store(server=sys.argv[1])
blocks = store.namespace(sealstone.Layout.opaque("fork"))
blocks.put([(bytes(32), b"data")])
pid = os.fork()
if pid == 0:
    try:
        blocks.exists([bytes(32)])
    except sealstone.ForkedError:
        sys.exit(7)
    sys.exit(8)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(blocks.exists([bytes(32)])[0].name)
""",
        server.address,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")


@pytest.fixture(params=["tcp", "unix"])
def plain(server: Server, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """redis-py, by either way in."""
    if request.param == "tcp":
        client = redis.Redis(host="127.0.0.1", port=server.port)
    else:
        client = redis.Redis(unix_socket_path=str(server.socket))
    yield client
    client.close()


def test_redis_py(plain: redis.Redis) -> None:
    value = content("redis", 3 * MIB)
    assert plain.ping()
    assert plain.set("a", "b") and plain.set(b"binary \0 key\r\n", value)
    assert plain.get("a") == b"b" and plain.get(b"binary \0 key\r\n") == value
    assert plain.get("none") is None
    assert plain.mget("a", "none", b"binary \0 key\r\n") == [b"b", None, value]
    assert plain.exists("a") == 1 and plain.exists("a", "none", "a") == 2
    assert plain.strlen("a") == 1 and plain.strlen("none") == 0
    assert plain.set("a", "other", nx=True) is None
    assert plain.set("c", "d", nx=True)
    assert plain.ttl("a") == -1 and plain.ttl("none") == -2
    assert sorted(plain.scan_iter()) == [b"a", b"binary \0 key\r\n", b"c"]
    assert plain.dbsize() == 3
    assert plain.delete("a", "none") == 1
    assert plain.dbsize() == 2
    assert plain.get("a") is None
    assert plain.info()["redis_version"]


def test_redis_py_pipeline(plain: redis.Redis) -> None:
    with plain.pipeline(transaction=False) as pipe:
        for i in range(200):
            pipe.set(f"key {i}", content(i, 1000))
        assert pipe.execute() == [True] * 200
        for i in range(200):
            pipe.get(f"key {i}")
        assert pipe.execute() == [content(i, 1000) for i in range(200)]
    assert len(set(plain.scan_iter(count=10))) == 200
    assert len(set(plain.scan_iter(match="key 1*"))) == 111


def test_redis_py_asyncio(server: Server) -> None:
    import redis.asyncio

    async def run() -> None:
        client = redis.asyncio.Redis(host="127.0.0.1", port=server.port)
        await asyncio.gather(*(client.set(f"k{i}", content(i, 5000)) for i in range(50)))
        got = await asyncio.gather(*(client.get(f"k{i}") for i in range(50)))
        assert got == [content(i, 5000) for i in range(50)]
        await client.aclose()

    asyncio.run(run())


def test_plain_keys_are_blocks(server: Server, client: Store) -> None:
    """What Redis clients set is in the namespace "plain-keys", under the key's SHA-256."""
    with redis.Redis(host="127.0.0.1", port=server.port) as plain:
        plain.set("key", "by redis")
    blocks = client.namespace(Layout.opaque("plain-keys"))
    into = bytearray(8)
    [got] = blocks.get([(hashlib.sha256(b"key").digest(), into)])
    assert got.ok and into == b"by redis"
