"""Cases of processes that want one entry of the disk cache at once, in one interpreter that forks.

Processes tell what they make in a log, so that it is counted. A case that hangs has failed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import fx
from fx.backends.cpu.llvm import disk_cache

DEADLINE = 20  # seconds of a case, which takes a tenth of one
FOREVER = 1e6
folder = Path()
children: list[int] = []


def forked(run, *args):
    """Run a function in a child, which fails where it does."""
    pid = os.fork()
    if pid:
        children.append(pid)
        return pid
    children.clear()
    failed = 1
    try:
        run(*args)
        failed = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(failed)


def ended(pid):
    children.remove(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Gate:
    """Processes come to a gate, and go on when it opens."""

    def __init__(self):
        self.come, self.go = os.pipe(), os.pipe()

    def wait(self):
        os.write(self.come[1], b"x")
        select.select([self.go[0]], [], [])

    def reached(self, count=1):
        for _ in range(count):
            os.read(self.come[0], 1)

    def open(self):
        os.write(self.go[1], b"x")


def keep(name, inside=lambda: time.sleep(0.02)):
    """An entry, made or found."""

    def make():
        note(name)
        inside()
        return [name], b"code"

    assert disk_cache.kept(name, make) == ([name], b"code")


def note(name):
    with (folder / "log").open("a") as log:
        log.write(f"{name}\n")


def made():
    path = folder / "log"
    return sorted(path.read_text().split()) if path.exists() else []


def lock_of(name):
    return folder / f"new-{name}.lock"


def is_claimed(name):
    with lock_of(name).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def claims_left():
    return [path.name for path in folder.glob("new-*")]


def waits(pid, name):
    """Wait until a process has opened the lock of an entry."""
    path = str(lock_of(name))
    while path not in opened(pid):
        time.sleep(0.001)


def opened(pid):
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(fd))
    return found


# ------------------------------------------------------------------------------------------------


def case_each_entry_is_made_once():
    names = ["a", "b", "c", "d"]
    gate = Gate()

    def run(turn):
        gate.wait()
        threads = [threading.Thread(target=keep, args=[name]) for name in names]
        for thread in threads[turn:] + threads[:turn]:
            thread.start()
        for thread in threads:
            thread.join()
        for name in names:
            keep(name)

    found = [forked(run, i % 4) for i in range(5)]
    gate.reached(5)
    gate.open()
    assert [ended(pid) for pid in found] == [0] * 5
    assert made() == names and not claims_left()


def case_each_program_is_compiled_once():
    gate, store = Gate(), disk_cache.store

    def storing(name, *rest):
        note(name)
        time.sleep(0.02)
        store(name, *rest)

    def run():
        disk_cache.store = storing
        gate.wait()
        rows = fx.jit(lambda x: fx.exp(fx.sum(fx.tanh(x) @ x.T, axis=0)))
        for n in (5, 6, 9):  # the second is compiled for any size
            rows(fx.ones((n, 4)))

    found = [forked(run) for _ in range(3)]
    gate.reached(3)
    gate.open()
    assert [ended(pid) for pid in found] == [0] * 3
    assert len(made()) == len({*made()}) > 2, made()


def case_one_follows_a_maker_that_was_killed():
    gate = Gate()
    maker = forked(keep, "a", gate.wait)
    gate.reached()
    waiting = [forked(keep, "a") for _ in range(3)]
    for pid in waiting:
        waits(pid, "a")
    os.kill(maker, signal.SIGKILL)
    assert ended(maker) == -signal.SIGKILL
    assert [ended(pid) for pid in waiting] == [0] * 3
    assert made() == ["a", "a"] and not claims_left()


def case_a_child_keeps_no_claim_of_a_killed_maker():
    gate = Gate()

    def fork_inside():
        forked(gate.wait)
        signal.pause()

    maker = forked(keep, "a", fork_inside)
    gate.reached()
    os.kill(maker, signal.SIGKILL)
    ended(maker)
    assert not is_claimed("a")
    keep("a")
    gate.open()
    assert made() == ["a", "a"] and not claims_left()


def case_a_child_gives_back_no_claim_of_a_maker():
    with disk_cache.making("a"):
        pid = os.fork()
        if not pid:
            children.clear()
            other = os.open(folder, os.O_RDONLY)  # in the place of the lock, which is closed
        else:
            assert os.waitpid(pid, 0)[1] == 0 and is_claimed("a")
    if not pid:
        os.fstat(other)
        os._exit(0)
    assert not claims_left()


def case_who_waits_for_one_that_hangs_goes_on_alone():
    gate = Gate()
    maker = forked(keep, "a", gate.wait)
    gate.reached()
    disk_cache._PATIENCE = 0.05
    keep("a", lambda: None)
    assert is_claimed("a")  # by the one that hangs
    gate.open()
    assert ended(maker) == 0
    assert made() == ["a", "a"] and not claims_left()


def case_an_interrupt_while_waiting_leaves_nothing():
    gate, told = Gate(), Gate()

    def wait():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            keep("a")
        except KeyboardInterrupt:
            assert not disk_cache._claims and str(lock_of("a")) not in opened("self")
            told.wait()
            return
        raise AssertionError("not interrupted")

    maker = forked(keep, "a", gate.wait)
    gate.reached()
    waiting = forked(wait)
    waits(waiting, "a")
    os.kill(waiting, signal.SIGINT)
    told.reached()
    assert is_claimed("a")
    told.open()
    gate.open()
    assert [ended(waiting), ended(maker)] == [0, 0]
    assert made() == ["a"] and not claims_left()


def case_what_one_could_not_make_is_made_by_all_at_once():
    gate, others = Gate(), Gate()

    def fail():
        gate.wait()
        raise KeyError("not made")

    def fails():
        try:
            keep("a", fail)
        except KeyError:
            return
        raise AssertionError("made")

    maker = forked(fails)
    gate.reached()
    waiting = [forked(keep, "a", others.wait) for _ in range(3)]
    for pid in waiting:
        waits(pid, "a")
    gate.open()
    assert ended(maker) == 0
    others.reached(3)  # all of them are making it
    others.open()
    assert [ended(pid) for pid in waiting] == [0] * 3
    assert made() == ["a"] * 4 and not claims_left()


def case_a_file_system_without_locks():
    def refused(*args):
        raise OSError(errno.ENOLCK, "no locks")

    fcntl.flock = refused
    keep("a", lambda: keep("a", lambda: None))
    keep("a")
    assert made() == ["a", "a"] and not claims_left()


def case_a_folder_that_takes_no_files():
    def refused(path, flags, mode=0o777, **kwargs):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "read-only")
        return opens(path, flags, mode, **kwargs)

    opens, os.open = os.open, refused
    keep("a")
    keep("a")
    assert made() == ["a", "a"] and not claims_left()


def case_something_else_in_the_place_of_a_lock():
    lock_of("a").mkdir()
    os.mkfifo(lock_of("b"))
    for name in "aabb":
        keep(name)
    assert made() == ["a", "b"] and claims_left() == [lock_of("a").name]


def case_no_cache():
    os.environ["FX_CACHE"] = "0"
    for name in (disk_cache.name_of("a"), "b"):
        with disk_cache.making(name) as there:
            assert not there and not disk_cache._claims
    assert not list(folder.iterdir())


# ------------------------------------------------------------------------------------------------


def main(base):
    global folder
    disk_cache._PATIENCE = FOREVER
    for name, case in [x for x in globals().items() if x[0].startswith("case_")]:
        folder = base / name
        folder.mkdir(mode=0o700)
        os.environ["FX_CACHE_DIR"] = str(folder)
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            signal.alarm(DEADLINE)
            text = ""
            try:
                case()
            except BaseException:
                text = traceback.format_exc()
            os.write(write, text.encode()[-4000:] or b"passed")
            for child in children:
                os.kill(child, signal.SIGKILL)
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # whoever still waits
        print(json.dumps([name, os.read(read, 4000).decode() or "hung"]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
