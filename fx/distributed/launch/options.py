"""What the launcher is told: torchrun's flags, their values, and what is wrong with them."""

from __future__ import annotations

import os
import signal
from argparse import REMAINDER, Action, ArgumentParser, Namespace
from pathlib import Path

STREAMS = {"stdout": 1, "stderr": 2}  # bits of --redirects and --tee


class UsageError(Exception):
    """What was asked cannot be; the text says what to write."""


def cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def parser() -> ArgumentParser:
    """The parser of ``python -m fx.run``; the environment may give each flag as ``PET_<FLAG>``."""
    out = ArgumentParser(
        prog="python -m fx.run",
        description="Run a script in several processes that find each other.",
        allow_abbrev=False,
    )

    def flag(*names: str, **options: object) -> Action:
        both = {n.replace("_", "-") for n in names} | {
            "--" + n[2:].replace("-", "_") for n in names if n.startswith("--")
        }
        return out.add_argument(*sorted(both, key=len), **options)  # type: ignore[arg-type]

    flag("--nnodes", default="1", help="hosts, or MIN:MAX of them")
    flag("--nproc-per-node", default="1", help="ranks on this host: a number, auto, cpu or gpu")
    flag(
        "--hosts", default="", help="HOST,USER@HOST,HOST:RANKS,...: start a launcher on each by ssh"
    )
    flag("--ssh", default="ssh -o BatchMode=yes", help="how --hosts reaches a host")
    flag("--node-rank", type=int, default=0, help="which host this is, with --master-addr")
    flag("--master-addr", default="127.0.0.1", help="the host with --node-rank 0")
    flag("--master-port", type=int, help="its port; 29500 with several hosts, else a free one")
    flag(
        "--rdzv-backend", default="static", help="static, or c10d: hosts are numbered as they come"
    )
    flag("--rdzv-endpoint", default="", help="HOST:PORT where the hosts meet")
    flag("--rdzv-id", default="none", help="the job's name, the same on all hosts")
    flag("--rdzv-conf", default="", help="timeout=SECONDS,last_call_timeout=SECONDS")
    flag("--local-addr", help="this host's address, as the others reach it")
    flag("--standalone", action="store_true", help="one host, whatever the other flags say of it")
    flag(
        "--max-restarts", type=int, default=0, help="how often the ranks start again after a death"
    )
    flag(
        "--monitor-interval", type=float, default=0.1, help="seconds between two looks at the ranks"
    )
    flag(
        "--shutdown-timeout",
        type=float,
        default=5.0,
        help="seconds from SIGTERM to SIGKILL at the end",
    )
    flag(
        "--start-method",
        default="fork",
        choices=("fork", "spawn"),
        help="fork from the launcher, which has fx loaded; or new interpreters",
    )
    flag("--role", default="default", help="the ranks' name in logs")
    flag(
        "--on-oom",
        default="raise",
        choices=("raise", "halve"),
        help="halve: after a death for want of memory, start again with FX_BATCH_SPLIT doubled",
    )
    flag("-m", "--module", action="store_true", help="the script is a module's name")
    flag("--no-python", action="store_true", help="the script is a program")
    flag("--log-dir", help="where files of --redirects, --tee and errors go")
    flag(
        "-r",
        "--redirects",
        default="0",
        help="into files: 1 stdout, 2 stderr, 3 both, or RANK:BITS,...",
    )
    flag("-t", "--tee", default="0", help="into files and onto the console, as --redirects")
    flag("--local-ranks-filter", default="", help="only these ranks write onto the console: 0,2")
    flag(
        "--signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="sent on to the ranks"
    )
    out.add_argument("script", help="what to run")
    out.add_argument("arguments", nargs=REMAINDER, help="its arguments")
    for action in out._actions:
        told = os.environ.get(f"PET_{action.dest.upper()}")
        if told is not None and action.option_strings:
            action.default = told == "1" if action.nargs == 0 else told
    return out


def options(arguments: list[str] | None = None) -> Namespace:
    """The parsed flags, and of them: ``ranks``, ``nodes`` (least, most), ``modes``, ``signals``.

    Raises ``UsageError``; ``SystemExit`` as ``argparse`` does.
    """
    out = parser().parse_args(arguments)
    out.call = None  # a function and its arguments, in place of a script: ``calls.py``
    out.ranks = 0 if out.hosts else _ranks(out.nproc_per_node)  # each host counts its own
    out.nodes = (1, 1) if out.standalone else _nodes(out.nnodes)
    out.modes = [] if out.hosts else _modes(out)
    out.signals = [_signal(name) for name in out.signals_to_handle.split(",") if name]
    if out.max_restarts < 0 or out.monitor_interval <= 0 or out.shutdown_timeout < 0:
        raise UsageError(
            "--max-restarts and --shutdown-timeout are numbers from 0, --monitor-interval is above "
            f"0; got {out.max_restarts}, {out.shutdown_timeout:g} and {out.monitor_interval:g}"
        )
    if not 0 <= out.node_rank < out.nodes[1]:
        raise UsageError(
            f"--node-rank {out.node_rank}: with --nnodes {out.nnodes} it is below {out.nodes[1]}"
        )
    out.conf = _conf(out.rdzv_conf)
    if out.rdzv_backend not in ("static", "c10d"):
        raise UsageError(f"--rdzv-backend is static or c10d; got {out.rdzv_backend!r}")
    if out.rdzv_backend == "static" and out.nodes[0] != out.nodes[1]:
        raise UsageError(f"--nnodes {out.nnodes}: a range needs --rdzv-backend c10d")
    if not out.module and not out.no_python and not Path(out.script).is_file():
        raise UsageError(f"there is no script {out.script!r} (in {os.getcwd()}); a module needs -m")
    return out


def _ranks(told: str) -> int:
    if told in ("auto", "cpu", "gpu"):
        from fx.torch.cuda import device_count

        cards = device_count() if told != "cpu" else 0
        if told == "gpu" and not cards:
            raise UsageError(
                "--nproc-per-node gpu: there is no CUDA device here; write cpu or a number"
            )
        return cards or cores()
    if not told.isdecimal() or int(told) < 1:
        raise UsageError(f"--nproc-per-node takes a number from 1, auto, cpu or gpu; got {told!r}")
    return int(told)


def _conf(told: str) -> dict[str, str]:
    out = dict(part.partition("=")[::2] for part in told.split(",") if part)
    for name, value in out.items():
        known = name in ("timeout", "join_timeout", "last_call_timeout")
        if not known or not value.replace(".", "", 1).isdecimal():
            raise UsageError(
                f"--rdzv-conf takes timeout, join_timeout and last_call_timeout in seconds; got "
                f"{name}={value}"
            )
    return out


def _nodes(told: str) -> tuple[int, int]:
    least, _, most = told.partition(":")
    numbers = (least, most or least)
    if not all(n.isdecimal() for n in numbers) or not 1 <= int(numbers[0]) <= int(numbers[1]):
        raise UsageError(f"--nnodes takes N or MIN:MAX, from 1; got {told!r}")
    return int(numbers[0]), int(numbers[1])


def _modes(told: Namespace) -> list[dict[str, str]]:
    """What happens to each stream of each local rank: ``console``, ``file``, ``tee``, ``none``."""
    redirects = _bits("--redirects", told.redirects, told.ranks)
    tee = _bits("--tee", told.tee, told.ranks)
    shown = {_number("--local-ranks-filter", n) for n in told.local_ranks_filter.split(",") if n}
    out = []
    for rank in range(told.ranks):
        hidden = bool(shown) and rank not in shown
        modes = {}
        for name, bit in STREAMS.items():
            mode = "tee" if tee[rank] & bit else "file" if redirects[rank] & bit else "console"
            modes[name] = {"tee": "file", "console": "none"}.get(mode, mode) if hidden else mode
        out.append(modes)
    return out


def _bits(flag: str, told: str, ranks: int) -> list[int]:
    out = [0] * ranks
    for part in told.split(","):
        rank, colon, bits = part.rpartition(":")
        value = _number(flag, bits)
        if value > 3 or (colon and _number(flag, rank) >= ranks):
            raise UsageError(
                f"{flag} takes 0 to 3, or RANK:BITS with ranks below {ranks}; got {told!r}"
            )
        for each in [int(rank)] if colon else range(ranks):
            out[each] = value
    return out


def _number(flag: str, told: str) -> int:
    if not told.isdecimal():
        raise UsageError(f"{flag} takes numbers; got {told!r}")
    return int(told)


def _signal(name: str) -> signal.Signals:
    found = getattr(signal, name.strip(), None)
    if not isinstance(found, signal.Signals) or found in (signal.SIGKILL, signal.SIGSTOP):
        raise UsageError(f"--signals-to-handle: {name!r} is no signal that a process can handle")
    return found
