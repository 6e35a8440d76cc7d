"""Options of optimizers: signatures, defaults and refusals are torch's."""

import inspect

import pytest

import fx
from fx.errors import DTypeError
from fx.optim import pure

torch = pytest.importorskip("torch")

import torch.optim.optimizer as torch_optimizer

import fx.optim.optimizer as fx_optimizer
from tests.optim.cases import CASES

NAMES = list(dict.fromkeys(name for name, _ in CASES))


# refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda o, p: o.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda o, p: o.SGD(p), TypeError, r"one tensor; write \[parameter\]"),
        (lambda o, p: o.SGD([fx.ones(1)]), TypeError, r"write w = fx.nn.Parameter\(w\)"),
        (lambda o, p: o.SGD(["w"]), TypeError, "can only optimize Parameters"),
        (lambda o, p: o.SGD([p, p]), ValueError, "more than one parameter group"),
        (lambda o, p: o.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda o, p: o.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1; SGD takes"),
        (lambda o, p: o.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda o, p: o.SGD([p], differentiable=True), ValueError, "use fx.optim.pure"),
        (
            lambda o, p: o.Adam([p], betas=(1.0, 0.9)),
            ValueError,
            "Invalid beta parameter at index 0: 1.0; Adam",
        ),
        (lambda o, p: o.RMSprop([p], eps=-1.0), ValueError, "Invalid epsilon value: -1.0; RMSprop"),
        (lambda o, p: pure.adam(lr=-1.0), ValueError, "Invalid learning rate: -1.0; Adam"),
        (lambda o, p: pure.sgd().init(fx.tensor([1])), DTypeError, "keep integers out of params"),
    ],
)
def test_what_optimizers_refuse(make, kind, message):
    with pytest.raises(kind, match=message):
        make(fx.optim, fx.nn.Parameter(fx.ones(1)))


@pytest.mark.parametrize("name", [*NAMES, "Muon", "SparseAdam", "LBFGS"])
def test_signatures_are_torchs(name):
    ours, theirs = (
        inspect.signature(getattr(lib.optim, name)).parameters.values() for lib in (fx, torch)
    )
    assert [(p.name, p.default, p.kind) for p in ours] == [
        (p.name, p.default, p.kind) for p in theirs
    ]


# options that torch refuses; the message begins as torch's does
REFUSED = [
    ("SGD", {"lr": -1}),
    ("SGD", {"momentum": -1}),
    ("SGD", {"weight_decay": -1}),
    ("SGD", {"nesterov": True}),
    ("Adam", {"lr": -1}),
    ("Adam", {"eps": -1}),
    ("Adam", {"betas": (1.0, 0.9)}),
    ("Adam", {"betas": (0.9, -0.1)}),
    ("Adam", {"betas": (0, 0.9)}),
    ("Adam", {"weight_decay": -1}),
    ("Adam", {"fused": True, "foreach": True}),
    ("AdamW", {"betas": (0.9, 2.0)}),
    ("Adamax", {"lr": -1}),
    ("Adamax", {"betas": (0.9, 2.0)}),
    ("NAdam", {"momentum_decay": -1}),
    ("RAdam", {"eps": -1}),
    ("Adagrad", {"lr_decay": -1}),
    ("Adagrad", {"initial_accumulator_value": -1}),
    ("Adadelta", {"rho": 1.5}),
    ("RMSprop", {"alpha": -1}),
    ("RMSprop", {"momentum": -1}),
    ("Rprop", {"etas": (1.5, 2.0)}),
    ("ASGD", {"weight_decay": -1}),
    ("SparseAdam", {"lr": 0.0}),
    ("SparseAdam", {"eps": 0.0}),
    ("Adafactor", {"lr": -1}),
    ("Adafactor", {"beta2_decay": 1.0}),
    ("Adafactor", {"eps": (-1.0, 1.0)}),
    ("Adafactor", {"eps": (None, -1.0)}),
    ("Adafactor", {"d": 0.5}),
    ("Adafactor", {"weight_decay": -1}),
    ("Muon", {"lr": -1}),
    ("Muon", {"momentum": -1}),
    ("Muon", {"weight_decay": -1}),
    ("Muon", {"adjust_lr_fn": "large"}),
    ("Muon", {"shape": (3,)}),
    ("LBFGS", {"lr": -1}),
]


@pytest.mark.parametrize(("name", "options"), REFUSED, ids=str)
def test_refusals_are_torchs(name, options):
    raised = []
    for lib in (fx, torch):
        p = lib.nn.Parameter(lib.ones(options.get("shape", (2, 2))))
        given = {k: v for k, v in options.items() if k != "shape"}
        with pytest.raises((ValueError, RuntimeError)) as error:
            getattr(lib.optim, name)([p], **given)
        raised.append(str(error.value))
    length = min(24, len(raised[1]) - 1)
    assert raised[0][:length] == raised[1][:length]


def test_a_learning_rate_of_several_elements_is_refused():
    p = fx.nn.Parameter(fx.ones(2))
    for name in (*NAMES, "LBFGS"):
        with pytest.raises(ValueError, match=r"Tensor lr must be 1-element; .* got float32\[2\]"):
            getattr(fx.optim, name)([p], lr=fx.ones(2))


def test_options_that_every_group_must_give():
    for lib, required in ((fx, fx_optimizer.required), (torch, torch_optimizer.required)):
        p = lib.nn.Parameter(lib.ones(1))
        with pytest.raises(ValueError, match="a value of required optimization parameter lr"):
            lib.optim.Optimizer([p], {"lr": required})
        optimizer = lib.optim.Optimizer([{"params": p, "lr": 1.0}], {"lr": required})
        assert optimizer.param_groups[0]["lr"] == 1.0
