"""``fx.torch.multiprocessing.spawn`` against torch's."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import fx.torch.multiprocessing as mp
from fx.torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from fx.torch.distributed.launcher.api import LaunchConfig, elastic_launch

ROOT = Path(__file__).parents[2]


def told(face: str, method: str, place: Path):
    script = Path(__file__).with_name("spawned.py")
    done = subprocess.run(
        [sys.executable, str(script), face, method, str(place)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.peers
def test_failures_are_told_as_by_torch(tmp_path):
    (tmp_path / "torch").mkdir()
    ours = told("fx.torch", "fork", tmp_path)
    assert ours == told("torch", "fork", tmp_path / "torch")
    assert ours["raises"][0] == "ProcessRaisedException" and ours["files"] == ["0", "1"]
    assert ours["early"] is False and ours["late"] is True


def test_a_new_interpreter_raises():
    from tests.distributed.spawned import raises

    with pytest.raises(
        mp.ProcessRaisedException, match=r"(?s)-- Process 1 .*ValueError: the second"
    ):
        mp.spawn(raises, nprocs=2)


def test_errors_travel_and_strategies_are_names():
    error = mp.ProcessExitedException("said", 1, 2, 3, "SIGHUP")
    again = pickle.loads(pickle.dumps(error))
    assert vars(again) == vars(error) and str(again) == "said"
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(ValueError, match="got 'shared'"):
        mp.set_sharing_strategy("shared")


def test_spawn_takes_no_other_start_method():
    with pytest.warns(FutureWarning, match="write start_processes"):
        assert mp.spawn(print, nprocs=0, start_method="fork") is None


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_function_is_called_in_every_rank(method):
    config = LaunchConfig(1, 1, 2, start_method=method, max_restarts=0)
    assert elastic_launch(config, os.getenv)("RANK") == {0: "0", 1: "1"}


def test_a_rank_that_fails_is_told_and_no_other(tmp_path):
    from tests.distributed.spawned import raises

    (tmp_path / "attempts").touch()

    def fails(first):
        with (tmp_path / "attempts").open("a") as file:
            file.write(os.environ["RANK"])
        raises(int(os.environ["RANK"]) + first)

    config = LaunchConfig(1, 1, 2, start_method="fork", max_restarts=1)
    with pytest.raises(ChildFailedError, match="ValueError: the second") as told:
        elastic_launch(config, fails)(0)
    assert list(told.value.failures) == [1]
    assert told.value.get_first_failure()[1].exitcode == 1
    assert sorted((tmp_path / "attempts").read_text()) == ["0", "0", "1", "1"]


def test_a_program_is_run_in_every_rank(tmp_path):
    config = LaunchConfig(1, 1, 2, max_restarts=0)
    assert elastic_launch(config, "mkdir")("-p", tmp_path / "made") == {0: None, 1: None}
    assert (tmp_path / "made").is_dir()
    with pytest.raises(ValueError, match="logs_specs is not there"):
        LaunchConfig(1, 1, 1, logs_specs=3)
    for endpoint, words in (("", "rdzv_endpoint is host:port"), ("a:1", "needs --rdzv-backend")):
        config = LaunchConfig(1, 2, 1, rdzv_backend="static", rdzv_endpoint=endpoint)
        with pytest.raises(ValueError, match=words):
            elastic_launch(config, print)()
