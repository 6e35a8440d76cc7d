"""Modules that are split: the stages one after the other are the module, and faults are named."""

import numpy as np
import pytest

import fx
from fx import nn
from fx.distributed.pipelining import SplitPoint, pipe_split, pipeline, split_evenly
from fx.errors import ArgumentError, ShapeError, StagingError

BEFORE, AFTER = SplitPoint.BEGINNING, SplitPoint.END


class Skips(nn.Module):
    """A value of the first part that only the last one uses, and one of both that is constant."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, *, bias=None):
        ramp = fx.arange(4, dtype=fx.float64)
        first = self.a(x) + ramp
        pipe_split()
        second = self.b(first).tanh()
        pipe_split()
        return {"out": self.c(second) + first * x + ramp + (0 if bias is None else bias), "n": 3}


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(6, 4)

    def forward(self, x):
        x = self.drop(self.norm(self.first(x)))
        return self.last(self.drop(x.relu()))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.middle = nn.Embedding(7, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.middle(self.words(ids)))


X = fx.sin(fx.arange(20, dtype=fx.float64)).reshape(5, 4)
IDS = fx.arange(5) % 7
MODELS = {
    "skips": (Skips, (X,), {"bias": X}, None, 3),
    "noisy": (Noisy, (X,), {}, {"norm": BEFORE, "last": BEFORE}, 3),
    "tied": (Tied, (IDS,), {}, {"middle": BEFORE, "head": BEFORE}, 3),
    "containers": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 4))),
        (X,), {}, {"1.0": AFTER}, 2,
    ),
}  # fmt: skip


def tensors(out):
    return [x for x in fx.tree.leaves(out) if isinstance(x, fx.Tensor)]


def near(a, b):
    assert a.shape == b.shape
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_the_stages_are_the_module(name):
    make, args, kwargs, spec, count = MODELS[name]
    fx.manual_seed(0)
    model = make().double()
    pipe = pipeline(model, args, kwargs, split_spec=spec)
    assert pipe.num_stages == count
    assert {id(p) for p in pipe.parameters()} == {id(p) for p in model.parameters()}
    names = dict(model.named_parameters(remove_duplicate=False))
    for k in range(count):
        for path, p in pipe.get_stage_module(k).named_parameters():
            assert names[path] is p
    for training in (True, False):
        seen = []
        for module in (model, pipe):
            module.train(training)
            before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
            module.zero_grad()
            fx.manual_seed(1)
            out = module(*args, **kwargs)
            sum([(x * x).sum() for x in tensors(out)]).backward()
            seen.append((out, [p.grad for p in model.parameters()], list(model.buffers())))
            seen[-1] = fx.tree.map(
                lambda x: x.detach() if isinstance(x, fx.Tensor) else x, seen[-1]
            )
            model.load_state_dict({k: fx.asarray(v) for k, v in before.items()})
        assert fx.tree.structure(seen[0]) == fx.tree.structure(seen[1])
        for a, b in zip(*map(tensors, seen), strict=True):
            near(a, b)


def test_only_what_is_needed_passes_on():
    pipe = pipeline(Skips().double(), (X,))
    counts = []
    for k in range(3):
        part = pipe.get_stage_module(k)._parts[True]
        counts.append((len(part.graph.inputs) - len(part.cells), len(part.graph.outputs)))
    assert counts == [(1, 2), (2, 3), (3, 1)]  # x and what a gives; the ramp is made again
    assert "iota" in str(pipe.get_stage_module(2)._parts[True].graph)
    known = pipeline(Tied(), (IDS,), split_spec=MODELS["tied"][3]).replicated_params
    assert known == [{"submod_0": "words.weight", "submod_2": "words.weight"}]


def test_draws_are_those_of_the_process_that_runs_a_stage():
    model = Noisy().double()
    middle = fx.cos(fx.arange(30, dtype=fx.float64)).reshape(5, 6)
    outs = []
    for seed in (1, 1, 2):
        fx.manual_seed(seed)
        fx.rand(3)
        outs.append(pipeline(model, (X,), split_spec={"norm": BEFORE}).get_stage_module(1)(middle))
    assert (outs[0] == outs[1]).all() and not (outs[0] == outs[2]).all()
    twice = nn.Sequential(nn.Tanh(), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.5))
    last = pipeline(twice, (X,), split_spec={"2": BEFORE}).get_stage_module(1)
    assert len(last(X)) == 5 and last(X).shape == (5, 4)  # no state passes on


def test_a_parameter_that_is_replaced_is_the_stages():
    pipe = pipeline(MODELS["containers"][0]().double(), (X,), split_spec={"1": BEFORE})
    stage = pipe.get_stage_module(0)
    stage._modules["0"].weight = nn.Parameter(fx.zeros((4, 4), dtype=fx.float64))
    assert (stage(X)[0] == stage._modules["0"].bias).all()


def test_sequentials_are_cut_by_number_or_cost():
    layers = [nn.Linear(4, 64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4), nn.Linear(4, 4)]
    model = nn.Sequential(*layers).double()
    assert list(split_evenly(model, 2)) in (["2"], ["3"])
    assert list(split_evenly(model, 3, (X,))) == ["1", "2"]
    assert list(split_evenly(model, 5)) == ["1", "2", "3", "4"]
    assert split_evenly(model, 1) == {}
    pipe = pipeline(model, (X,), split_policy=lambda graph: [len(graph.nodes) // 2])
    near(pipe(X), model(X))
    with pytest.raises(ArgumentError, match="5 layers do not make 6 stages"):
        split_evenly(model, 6)


def test_splits_outside_of_a_pipeline_do_nothing():
    assert Skips().double()(X)["out"].shape == (5, 4)
    pipe_split()


class Twice(nn.Module):
    """A norm in two stages."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.norm(x)
        pipe_split()
        return self.norm(x)


class Loops(nn.Module):
    def forward(self, x):
        def body(i, x):
            pipe_split()
            return x * 2

        return fx.fori_loop(0, fx.argmax(x[0]), body, x)


class Asks(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_faults_are_named():
    model = MODELS["containers"][0]().double()
    split = lambda **spec: pipeline(model, (X,), split_spec=spec)
    with pytest.raises(ArgumentError, match="no submodule 'a'; there are 0, 1"):
        split(a=BEFORE)
    with pytest.raises(ArgumentError, match="Unknown split point type"):
        pipeline(model, (X,), split_spec={"1": "before"})
    with pytest.raises(ArgumentError, match="nothing is computed in stage 0 of 2"):
        pipeline(model, (X,), split_spec={"0": BEFORE})
    with pytest.raises(ArgumentError, match="Cannot specify both"):
        pipeline(model, (X,), split_spec={}, split_policy=len)
    with pytest.raises(ArgumentError, match=r"split_policy gave \[3, 2\]"):
        pipeline(model, (X,), split_policy=lambda graph: [3, 2])
    with pytest.raises(ArgumentError, match="split_policy cuts between random draws"):
        draws = nn.Sequential(nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.5))
        half = lambda graph: [[n.primitive.name for n in graph.nodes].index("relu")]
        pipeline(draws, (X,), split_policy=half)
    with pytest.raises(ArgumentError, match="split_spec names other, which forward does not call"):
        other = Skips().double()
        other.other = nn.ReLU()
        pipeline(other, (X,), split_spec={"other": AFTER})
    with pytest.raises(
        ArgumentError, match=r"running_mean.*gets new values, and is used in stages \[0, 1"
    ):
        pipeline(Twice().double(), (X,))
    with pytest.raises(StagingError, match="in the body of a loop or branch"):
        pipeline(Loops(), (X,))
    with pytest.raises(StagingError, match="Python asked for it"):
        pipeline(Asks(), (X,))
    pipe = pipeline(MODELS["containers"][0]().double(), (X,), split_spec={"1": BEFORE})
    with pytest.raises(ArgumentError, match="Invalid stage index 2"):
        pipe.get_stage_module(2)
    with pytest.raises(ShapeError, match=r"was split for micro-batches of .*5, ?4.* got .*3, ?4"):
        pipe(X[:3])
    with pytest.raises(ArgumentError, match="was split for arguments"):
        pipe(X, X)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules()
                   if "_forward_hooks" in m.__dict__)  # fmt: skip
