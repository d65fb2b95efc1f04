"""Forks, processes of multiprocessing, and the end of the interpreter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import run_python

HEAD = """
import multiprocessing, os, sys, threading, time, warnings
import sealstone
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
def opened():
    return sealstone.Store(dir=sys.argv[1], capacity_bytes=256 << 20, max_block_bytes=1 << 20)
H = bytes(32)
LAYOUT = sealstone.Layout.opaque("fork")
"""

FORK = """
store = opened()
blocks = store.namespace(LAYOUT)
blocks.put([(H, b"data")])
lease = blocks.match([H])
def child():
    refused = []
    into = bytearray(4)
    for call in (
        lambda: blocks.get([(H, into)]), lambda: blocks.put([(H, b"data")]),
        lambda: blocks.lookup_now([H]), lambda: blocks.match([H]), blocks.bump_epoch,
        store.stats, store.health, lambda: store.namespace(LAYOUT), lambda: blocks.info,
        lease.renew, opened,
    ):
        try:
            call()
        except sealstone.ForkedError as err:
            refused.append(str(err))
    lease.release()
    blocks.close()
    store.close()
    into.append(1)
    print(len(refused), all("fork" in r for r in refused), flush=True)
"""

CHECK = """
into = bytearray(4)
assert blocks.get([(H, into)])[0].ok and into == b"data"
assert blocks.put([(bytes(31) + b"x", b"more")])[0].ok
assert lease.renew()
store.close()
opened().close()  # the lock is free
print("parent", flush=True)
"""


def program(directory: Path, source: str) -> str:
    done = run_python(HEAD + source, directory)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_fork_refuses(directory: Path) -> None:
    fork = """
pid = os.fork()
if pid == 0:
    child()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    assert program(directory, FORK + fork + CHECK) == "11 True\nparent\n"


def test_fork_by_multiprocessing(directory: Path) -> None:
    source = """
p = multiprocessing.get_context("fork").Process(target=child)
p.start()
p.join(60)
assert p.exitcode == 0, p.exitcode
"""
    assert program(directory, FORK + source + CHECK) == "11 True\nparent\n"


def test_fork_while_threads_are_at_work(directory: Path) -> None:
    """Locks that other threads hold at the moment of the fork stop nobody."""
    source = """
stop = threading.Event()
def work(i):
    while not stop.is_set():
        blocks.get([(H, bytearray(4))])
        blocks.exists([H])
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        try:
            blocks.get([(H, bytearray(4))])
        except sealstone.ForkedError:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
stop.set()
for t in threads: t.join()
"""
    assert program(directory, FORK + source + CHECK) == "parent\n"


def test_fork_of_what_has_no_store(directory: Path) -> None:
    """Importing the package before a fork is fine."""
    source = """
pid = os.fork()
if pid == 0:
    with opened() as store:
        assert store.namespace(LAYOUT).put([(H, b"data")])[0].ok
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
with opened() as store:
    print(store.namespace(LAYOUT).exists([H])[0].name)
"""
    assert program(directory, source) == "OK\n"


def test_spawned_process(directory: Path, tmp_path: Path) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(
        HEAD
        + """
def child(directory):
    sys.argv[1] = directory
    with opened() as store:
        print(store.namespace(LAYOUT).put([(H, b"data")])[0].status.name, flush=True)
if __name__ == "__main__":
    theirs, sys.argv[1] = sys.argv[1], sys.argv[1] + "-mine"
    store = opened()
    p = multiprocessing.get_context("spawn").Process(target=child, args=(theirs,))
    p.start()
    p.join(60)
    assert p.exitcode == 0
"""
    )
    done = run_python(
        "import runpy, sys; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')",
        script,
        directory,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")


@pytest.mark.parametrize(
    "end",
    ["", "sys.exit(0)", "del store, blocks", "store.close()", "store = blocks = None"],
)
def test_exit_without_close(directory: Path, end: str) -> None:
    source = f"""
store = opened()
blocks = store.namespace(LAYOUT)
assert blocks.put([(H, b"data")])[0].ok
{end}
"""
    assert program(directory, source) == ""
    assert program(directory, "print(opened().namespace(LAYOUT).exists([H])[0].name)") == "OK\n"


def test_exit_with_threads_at_work(directory: Path) -> None:
    source = """
store = opened()
blocks = store.namespace(LAYOUT)
blocks.put([(H, bytes(1 << 20))])
def work():
    try:
        while True:
            blocks.get([(H, bytearray(1 << 20))])
    except sealstone.ClosedError:
        pass
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    assert program(directory, source) == ""


def test_exit_in_an_event_loop(directory: Path) -> None:
    source = """
import asyncio
async def main():
    global store
    store = opened()
    blocks = store.namespace(LAYOUT)
    await blocks.aput([(H, bytes(1 << 20))])
    for _ in range(8):
        asyncio.create_task(blocks.aget([(H, bytearray(1 << 20))]))
    await asyncio.sleep(0)
asyncio.run(main())
"""
    assert program(directory, source) == ""


def test_exit_by_exception_says_only_that(directory: Path) -> None:
    done = run_python(HEAD + "store = opened()\nraise SystemExit('reason')", directory)
    assert (done.returncode, done.stderr.strip()) == (1, "reason")


def test_library_makes_no_sound_and_takes_no_signal(directory: Path) -> None:
    """Handlers of the program stay; nothing is printed."""
    source = """
import signal
store = opened()
got = []
signal.signal(signal.SIGUSR1, lambda *a: got.append("usr1"))
signal.signal(signal.SIGINT, lambda *a: got.append("int"))
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.05)
print(got)
"""
    assert program(directory, source) == "['usr1', 'int']\n"
    assert os.listdir(directory)
