"""Parallel: the independent tasks of one kernel on the cores that are free.

A pool of native threads with one job at a time. The calling thread publishes a job and draws chunks
from an atomic counter; a worker that wakes in time draws some too. At the end the caller waits only
for chunks that a worker has begun: one that the operating system did not let run has taken nothing
and holds up nobody, which no fork-join barrier (OpenMP's among them) can say.

Where a worker was stopped inside a chunk, because another process holds its core, the caller has to
wait for it. So the pool keeps accounts: time that workers saved against time spent waiting. When
the balance is negative, the caller works alone for twenty times the loss: threads that do not pay,
on a machine that others keep busy, cost a few percent.

What chunks there are depends on the step alone, and which thread does one changes nothing in it, so
the bits of a result do not depend on the number of threads. A call that finds the pool busy with
the job of another thread does its tasks itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import Any

from fx.backends.cpu import threads
from fx.backends.cpu.llvm import disk_cache, engine
from fx.backends.cpu.llvm.machines import host

# words of the pool, a cache line of 8 for what different threads write
NEXT, ACTIVE, LOCK, COUNT, SLEEPERS, LIMIT, MUTEX, COND, WORDS = 0, 8, 16, 24, 32, 40, 48, 56, 72
FUNCTION, BLOCK, TASKS, CHUNK, SCRATCH, HELPERS = range(COUNT + 1, COUNT + 7)
SPIN, ALONE_UNTIL, SAVED, FACTOR, LONGEST, MOST = range(LIMIT + 1, LIMIT + 7)
JOBS, HELPED = LOCK + 1, ACTIVE + 1  # jobs published, and times that a worker came to one
_CLOSED = 1 << 62
# CLOCK_MONOTONIC, and CLOCK_THREAD_CPUTIME_ID: a caller that was stopped itself has not worked
_CLOCK, _WORK = (6, 16) if sys.platform == "darwin" else (1, 3)

_CROWD = 512  # threads at most, whatever number is asked for
_SPIN = 8_000  # looks at the counter before a worker sleeps: about 0.1 ms
_FACTOR = 20
_LONGEST = 1_000_000_000  # nanoseconds of working alone
_MOST = 5_000_000  # nanoseconds that may be saved up, so that one accident costs nothing

_PAUSE = {
    "x86": 'call void asm sideeffect "pause", ""()',
    "arm": 'call void asm sideeffect "yield", ""()',
}


def _word(name: str, place: int) -> str:
    return f"@{name}.at = internal alias i64, getelementptr (i64, ptr @fx_pool, i64 {place})\n"


def _text() -> str:
    machine = host()
    pause = _PAUSE["x86"] if machine.is_x86 else _PAUSE["arm"] if machine.is_arm else ""
    places = {
        "next": NEXT, "active": ACTIVE, "lock": LOCK, "count": COUNT, "sleepers": SLEEPERS,
        "limit": LIMIT, "mutex": MUTEX, "cond": COND, "function": FUNCTION, "block": BLOCK,
        "tasks": TASKS, "chunk": CHUNK, "scratch": SCRATCH, "helpers": HELPERS, "spin": SPIN,
        "alone": ALONE_UNTIL, "saved": SAVED, "factor": FACTOR, "longest": LONGEST,
        "most": MOST, "jobs": JOBS, "helped": HELPED,
    }  # fmt: skip
    return (
        f"@fx_pool = global [{WORDS} x i64] zeroinitializer, align 64\n"
        + "".join(_word(name, place) for name, place in places.items())
        + f"""
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()
declare void @free(ptr)

define internal i64 @now(i32 %clock) {{
  %time = alloca [2 x i64]
  %code = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %nanos.at = getelementptr i64, ptr %time, i64 1
  %nanos = load i64, ptr %nanos.at
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanos
  ret i64 %sum
}}

; draw chunks until none is left; how many that were
define internal i64 @draw(ptr %mine) {{
  br label %next
next:
  %drawn = phi i64 [0, %0], [%drawn.next, %work]
  %i = atomicrmw add ptr @next.at, i64 1 seq_cst
  %count = load atomic i64, ptr @count.at monotonic, align 8
  %mine.to.do = icmp slt i64 %i, %count
  br i1 %mine.to.do, label %work, label %done
work:
  %function = load ptr, ptr @function.at
  %block = load ptr, ptr @block.at
  %tasks = load i64, ptr @tasks.at
  %chunk = load i64, ptr @chunk.at
  %begin = mul i64 %i, %chunk
  %behind = add i64 %begin, %chunk
  %inside = icmp slt i64 %behind, %tasks
  %end = select i1 %inside, i64 %behind, i64 %tasks
  call void %function(ptr %block, i64 %begin, i64 %end, ptr %mine)
  %drawn.next = add i64 %drawn, 1
  br label %next
done:
  ret i64 %drawn
}}

; whether there is something to do for worker %me
define internal i1 @open(i64 %me) {{
  %next = load atomic i64, ptr @next.at seq_cst, align 8
  %count = load atomic i64, ptr @count.at monotonic, align 8
  %left = icmp slt i64 %next, %count
  %helpers = load atomic i64, ptr @helpers.at monotonic, align 8
  %wanted = icmp slt i64 %me, %helpers
  %both = and i1 %left, %wanted
  ret i1 %both
}}

define ptr @fx_worker(ptr %number) {{
start:
  %me = ptrtoint ptr %number to i64
  %mine.at = alloca ptr
  %size.at = alloca i64
  store ptr null, ptr %mine.at
  store i64 0, ptr %size.at
  br label %look
look:
  %turn = phi i64 [0, %start], [%turn.next, %again], [0, %left], [0, %awake]
  %job = call i1 @open(i64 %me)
  br i1 %job, label %enter, label %idle
idle:
  {pause}
  %turn.next = add i64 %turn, 1
  %spin = load atomic i64, ptr @spin.at monotonic, align 8
  %tired = icmp sgt i64 %turn, %spin
  br i1 %tired, label %sleep, label %again
again:
  br label %look
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @mutex.at)
  %before = atomicrmw add ptr @sleepers.at, i64 1 seq_cst
  br label %check
check:
  %job2 = call i1 @open(i64 %me)
  br i1 %job2, label %awake, label %wait
wait:
  %waited = call i32 @pthread_cond_wait(ptr @cond.at, ptr @mutex.at)
  br label %check
awake:
  %after = atomicrmw sub ptr @sleepers.at, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr @mutex.at)
  br label %look
enter:
  %in = atomicrmw add ptr @active.at, i64 1 seq_cst
  %still = call i1 @open(i64 %me)
  br i1 %still, label %prepare, label %leave
prepare:
  %need = load i64, ptr @scratch.at
  %size = load i64, ptr %size.at
  %enough = icmp sle i64 %need, %size
  br i1 %enough, label %ready, label %grow
grow:
  %old = load ptr, ptr %mine.at
  call void @free(ptr %old)
  store ptr null, ptr %mine.at
  store i64 0, ptr %size.at
  %code = call i32 @posix_memalign(ptr %mine.at, i64 64, i64 %need)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %leave, label %grown
grown:
  store i64 %need, ptr %size.at
  br label %ready
ready:
  %came = atomicrmw add ptr @helped.at, i64 1 monotonic
  %mine = load ptr, ptr %mine.at
  %drawn = call i64 @draw(ptr %mine)
  br label %leave
leave:
  %out = atomicrmw sub ptr @active.at, i64 1 seq_cst
  br label %left
left:
  br label %look
}}

define void @fx_parallel(
    ptr %function, ptr %block, i64 %tasks, i64 %chunk, i64 %scratch, ptr %mine) {{
start:
  %limit = load atomic i64, ptr @limit.at monotonic, align 8
  %several = icmp sgt i64 %limit, 1
  br i1 %several, label %when, label %alone
when:
  %begun = call i64 @now(i32 {_CLOCK})
  %until = load atomic i64, ptr @alone.at monotonic, align 8
  %later = icmp sge i64 %begun, %until
  br i1 %later, label %try, label %alone
try:
  %taken = cmpxchg ptr @lock.at, i64 0, i64 1 acquire monotonic
  %got = extractvalue {{i64, i1}} %taken, 1
  br i1 %got, label %post, label %alone
alone:
  call void %function(ptr %block, i64 0, i64 %tasks, ptr %mine)
  ret void
post:
  %up = add i64 %tasks, %chunk
  %up1 = sub i64 %up, 1
  %count = sdiv i64 %up1, %chunk
  %helpers = sub i64 %limit, 1
  store ptr %function, ptr @function.at
  store ptr %block, ptr @block.at
  store i64 %tasks, ptr @tasks.at
  store i64 %chunk, ptr @chunk.at
  store i64 %scratch, ptr @scratch.at
  store atomic i64 %helpers, ptr @helpers.at monotonic, align 8
  store atomic i64 %count, ptr @count.at monotonic, align 8
  %jobs = load i64, ptr @jobs.at
  %jobs.next = add i64 %jobs, 1
  store i64 %jobs.next, ptr @jobs.at
  store atomic i64 0, ptr @next.at seq_cst, align 8
  %asleep = load atomic i64, ptr @sleepers.at seq_cst, align 8
  %some = icmp sgt i64 %asleep, 0
  br i1 %some, label %wake, label %work
wake:
  %l = call i32 @pthread_mutex_lock(ptr @mutex.at)
  %b = call i32 @pthread_cond_broadcast(ptr @cond.at)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex.at)
  br label %work
work:
  %work.from = call i64 @now(i32 {_WORK})
  %drawn = call i64 @draw(ptr %mine)
  store atomic i64 {_CLOSED}, ptr @next.at seq_cst, align 8
  %from = call i64 @now(i32 {_CLOCK})
  %work.to = call i64 @now(i32 {_WORK})
  br label %wait
wait:
  %turn = phi i64 [0, %work], [%turn.next, %pausing]
  %turn.next = add i64 %turn, 1
  %busy = load atomic i64, ptr @active.at seq_cst, align 8
  %quiet = icmp eq i64 %busy, 0
  br i1 %quiet, label %account, label %hold
hold:
  %long = icmp sgt i64 %turn, 2000
  br i1 %long, label %yield, label %pausing
yield:
  %y = call i32 @sched_yield()
  br label %pausing
pausing:
  {pause}
  br label %wait
account:
  %to = call i64 @now(i32 {_CLOCK})
  %lost = sub i64 %to, %from
  %worked = sub i64 %work.to, %work.from
  %others = sub i64 %count, %drawn
  %product = mul i64 %worked, %others
  %none = icmp eq i64 %drawn, 0
  %share = select i1 %none, i64 1, i64 %drawn
  %spared = sdiv i64 %product, %share
  %before = load i64, ptr @saved.at
  %with = add i64 %before, %spared
  %balance = sub i64 %with, %lost
  %loss = icmp slt i64 %balance, 0
  br i1 %loss, label %alone.for.long, label %gain
gain:
  %most = load i64, ptr @most.at
  %less = icmp slt i64 %balance, %most
  %kept = select i1 %less, i64 %balance, i64 %most
  store i64 %kept, ptr @saved.at
  br label %release
alone.for.long:
  %deficit = sub i64 0, %balance
  %factor = load i64, ptr @factor.at
  %wanted = mul i64 %deficit, %factor
  %longest = load i64, ptr @longest.at
  %shorter = icmp slt i64 %wanted, %longest
  %rest = select i1 %shorter, i64 %wanted, i64 %longest
  %end = add i64 %to, %rest
  store atomic i64 %end, ptr @alone.at monotonic, align 8
  store i64 0, ptr @saved.at
  br label %release
release:
  store atomic i64 0, ptr @lock.at release, align 8
  ret void
}}
"""
    )


class _Native:
    """The pool of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loaded: engine.Loaded | None = None
        self.words: Any = None
        self.entry = self.worker = 0
        self.workers = 0

    def load(self) -> None:
        """Compile the pool and start as many workers as there are threads to use."""
        with self.lock:
            if self.loaded is None:
                exports = ("fx_parallel", "fx_worker", "fx_pool")
                code = [disk_cache.code_of(_text())]
                loaded = engine.Loaded(code, exports, {}, lasting=True)  # workers stay in it
                self.entry = loaded.address("fx_parallel")
                self.worker = loaded.address("fx_worker")
                self.words = (ctypes.c_int64 * WORDS).from_address(loaded.address("fx_pool"))
                self.reset()
                self.loaded = loaded
        self.limit(threads.get_num_threads())

    def reset(self) -> None:
        """Nobody works, nobody waits."""
        ctypes.memset(ctypes.addressof(self.words), 0, 8 * WORDS)
        start = ctypes.addressof(self.words)
        self.words[NEXT] = _CLOSED
        self.words[LIMIT] = 1
        self.words[SPIN], self.words[MOST] = _SPIN, _MOST
        self.words[FACTOR], self.words[LONGEST] = _FACTOR, _LONGEST
        process = ctypes.CDLL(None)
        process.pthread_mutex_init(ctypes.c_void_p(start + 8 * MUTEX), None)
        process.pthread_cond_init(ctypes.c_void_p(start + 8 * COND), None)
        self.workers = 0

    def limit(self, count: int) -> None:
        """Use up to ``count`` threads."""
        if self.words is None:
            return
        count = min(count, _CROWD)
        with self.lock:
            while self.workers < count - 1 and self._start(self.workers):
                self.workers += 1
            self.words[LIMIT] = min(count, self.workers + 1)

    def _start(self, number: int) -> bool:
        process = ctypes.CDLL(None)
        thread = ctypes.c_void_p()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            code = process.pthread_create(
                ctypes.byref(thread), None, ctypes.c_void_p(self.worker), ctypes.c_void_p(number)
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if code == 0:
            process.pthread_detach(thread)
        return bool(code == 0)


_native = _Native()


def address() -> int:
    """Where ``fx_parallel`` is: the pool is started with the first graph that may use it."""
    if _native.loaded is None:
        _native.load()
    return _native.entry


def _after_fork() -> None:
    _native.lock = threading.Lock()
    if _native.words is not None:
        _native.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
threads.on_change(_native.limit)
