"""Ranks that are actors of Ray: ``Trainer`` and the backend ``"ray"``, with Ray itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

import fx
import fx.distributed as dist
import fx.ray
from fx.distributed import checkpoint


def test_what_a_missing_engine_says():
    code = """
import sys
sys.modules["ray"] = None
import fx.ray
from fx.distributed import checkpoint
import fx.distributed as dist
for call in (fx.ray.Trainer(print).fit, lambda: dist.init_process_group("ray", None, None, 2, 0)):
    try:
        call()
    except dist.DistBackendError as error:
        assert "pip install 'fxgrad[ray]'" in str(error)
    else:
        raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_of_ray_is_loaded_before_it_is_used():
    code = "import sys, fx; assert 'fx.ray' not in sys.modules\n"
    code += "import fx.ray; fx.ray.Trainer(print); assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"num_workers": 0}, "num_workers is a positive int, got 0"),
        ({"use_gpu": True}, "no tensor of fx lies on a GPU"),
        ({"placement_strategy": "PILE"}, "placement_strategy is one of PACK, SPREAD"),
    ],
)
def test_what_cannot_be_is_said_at_once(wrong, words):
    with pytest.raises(ValueError, match=words):
        fx.ray.ScalingConfig(**wrong)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one host, and more that a test adds."""
    pytest.importorskip("mpi4py")
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'fxgrad[ray]'")
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.getcwd()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False})
    ray.init(address=made.address, logging_level="ERROR", log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def _trainer(loop, tmp_path, ranks=2, failures=0, name="run", config=None, **scaling):
    return fx.ray.Trainer(
        loop,
        fx.ray.ScalingConfig(num_workers=ranks, **scaling),
        fx.ray.RunConfig(name=name, storage_path=tmp_path),
        fx.ray.FailureConfig(max_failures=failures),
        train_loop_config=config,
    )


def _by_value(ray):
    """Send what is defined here whole: the ranks have no path to it."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


def train(config):
    """Four steps of a line through points, which ranks share; rank 1 fails in its first attempt."""
    rank, context = dist.get_rank(), fx.ray.get_context()
    fx.manual_seed(0)
    model = fx.ray.prepare_model(fx.nn.Linear(3, 1), config.get("strategy", "ddp"))
    optimizer = fx.optim.SGD(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer, "step": 0}
    if fx.ray.get_checkpoint() is not None:
        checkpoint.load(state, checkpoint_id=fx.ray.get_checkpoint())
    begun = time.time()
    for step in range(state["step"], 4):
        x = fx.random.normal(fx.random.key(step), (4, 3))[rank :: context.size]
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdims=True)).square().mean()
        loss.backward()
        if step == 2 and rank == 1 and not context.restarts and "fails" in config:
            fx.ray.report({"lost": time.time()})  # which the other rank does not
            config["fails"]()
        optimizer.step()
        state["step"] = step + 1
        folder = context.get_storage() / f"{context.restarts}-{step}"
        checkpoint.save(state, checkpoint_id=folder)
        loss = dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
        fx.ray.report({"loss": loss, "begun": begun, "type": type(model).__name__}, folder)


def _alone():
    """The losses of one process."""
    fx.manual_seed(0)
    model = fx.nn.Linear(3, 1)
    optimizer = fx.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = fx.random.normal(fx.random.key(step), (4, 3))
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdims=True)).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


def _losses(result):
    return [told["loss"] for told in result.history]


def _kill():
    os.kill(os.getpid(), 9)


def _raise():
    raise KeyError("of rank 1")


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_ranks_train_as_one_process(cluster, tmp_path, strategy):
    import ray

    _by_value(ray)
    result = _trainer(train, tmp_path, config={"strategy": strategy}).fit()
    assert _losses(result) == pytest.approx([*_alone()], rel=1e-5)
    assert result.metrics == result.history[-1] and not result.failures
    assert result.checkpoint == str(tmp_path / "run" / "0-3")


def test_auto_shares_what_is_too_large(cluster, tmp_path):
    import ray

    _by_value(ray)
    for memory, kind in ((2**27, "DistributedDataParallel"), (120, "Linear")):

        def loop(memory=memory):
            from dataclasses import replace

            from fx.distributed.actors import rank

            rank._context = replace(rank.get_context(), memory=memory)  # Ray grants no 120 bytes
            model = fx.ray.prepare_model(fx.nn.Linear(3, 1), "auto")
            fx.ray.report({"type": type(model).__name__.removeprefix("FSDP")})

        assert _trainer(loop, tmp_path, name=kind).fit().metrics["type"] == kind


@pytest.mark.parametrize(("fails", "words"), [(_kill, "rank 1 is dead"), (_raise, "KeyError")])
def test_a_failure_starts_all_again_from_what_all_have_reported(cluster, tmp_path, fails, words):
    import ray

    _by_value(ray)
    began = time.time()
    result = _trainer(train, tmp_path, failures=1, config={"fails": fails}).fit()
    assert [words in told for told in result.failures] == [True]
    assert _losses(result) == pytest.approx([*_alone()], rel=1e-5)
    assert result.checkpoint == str(tmp_path / "run" / "1-3")
    assert time.time() - began < 60


def test_without_an_attempt_left_the_cause_is_raised(cluster, tmp_path):
    import ray

    _by_value(ray)
    with pytest.raises(fx.ray.TrainingFailedError, match="run: rank 1: KeyError: 'of rank 1'") as e:
        _trainer(train, tmp_path, config={"fails": _raise}).fit()
    assert isinstance(e.value.__cause__, KeyError)
    assert issubclass(fx.ray.TrainingFailedError, dist.DistError)
    again = _trainer(train, tmp_path, config={}).fit()  # the same name: from the last checkpoint
    assert _losses(again) == pytest.approx([*_alone()][2:], rel=1e-5)


def test_what_has_no_place_is_named(cluster, tmp_path):
    trainer = _trainer(train, tmp_path, resources_per_worker={"CPU": 64}, timeout=timedelta(0, 1))
    with pytest.raises(dist.DistError, match=r"2 ranks of \{'CPU': 64\} .* the cluster has .*CPU"):
        trainer.fit()


@pytest.mark.slow
def test_ranks_of_a_host_that_is_lost_start_again_on_another(cluster, tmp_path):
    """Ranks on two hosts of three, one of which dies while the other rank waits for it."""
    import ray

    _by_value(ray)
    more = {node.node_id: node for node in [cluster.add_node(num_cpus=1) for _ in range(2)]}
    cluster.wait_for_nodes()
    more_ids = [*more]

    def loop():
        context = fx.ray.get_context()
        node = ray.get_runtime_context().get_node_id()
        if context.restarts == 0:
            if node in more_ids:
                (context.get_storage() / "begun").write_text(node)
            dist.barrier()
            if node in more_ids:
                time.sleep(300)
        fx.ray.report({"sum": dist.all_reduce(fx.ones(3) * context.rank).sum()})

    begun = tmp_path / "run" / "begun"

    def lose():
        while not begun.exists() or not begun.read_text():
            time.sleep(0.05)
        time.sleep(1)  # the others wait for it now
        cluster.remove_node(more[begun.read_text()], allow_graceful=False)

    threading.Thread(target=lose, daemon=True).start()
    result = _trainer(
        loop, tmp_path, failures=1, placement_strategy="STRICT_SPREAD",
        timeout=timedelta(seconds=60),
    ).fit()  # fmt: skip
    assert result.metrics == {"sum": 3.0}
    assert len(result.failures) == 1 and "is dead" in result.failures[0]


def test_the_backend_needs_no_address(cluster):
    import ray

    @ray.remote
    class Actor:
        def go(self, rank, size, group):
            dist.init_process_group("ray", rank=rank, world_size=size, group_name=group)
            out = dist.all_reduce(fx.ones(2) * (rank + 1)).tolist(), dist.get_backend()
            dist.destroy_process_group()
            return out

    actors = [Actor.remote() for _ in range(3)]
    for _ in range(2):  # again in the same processes
        calls = [actor.go.remote(r, 3, "all") for r, actor in enumerate(actors)]
        assert ray.get(calls, timeout=60) == [([6.0, 6.0], "ray")] * 3


def test_who_does_not_come_to_the_backend_is_named(cluster):
    with pytest.raises(
        dist.DistStoreError, match=r"rank 1 of 2 did not come to RayStore\('late'\)"
    ):
        dist.init_process_group(
            "ray", rank=0, world_size=2, group_name="late", timeout=timedelta(seconds=1)
        )
