"""autocast and GradScaler against torch: dtypes operator by operator, values, steps, state."""

import itertools
import math
import threading
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from tests.torch.halves import LINES

rng = np.random.default_rng(0)
SHAPES = {
    "a": (4, 4), "q": (2, 4, 4), "f": (1, 2, 8), "g": (1, 2, 8, 8), "h": (1, 2, 4, 4, 4),
    "w1": (3, 2, 3), "w2": (3, 2, 3, 3), "w3": (3, 2, 2, 2, 2), "r": (4,),
}  # fmt: skip
ARRAYS = {name: rng.standard_normal(shape).astype("f4") for name, shape in SHAPES.items()}
ARRAYS["u"] = rng.random((4, 4)).astype("f4") * 0.8 + 0.1
ARRAYS["m"] = np.where(rng.random((4, 4)) < 0.5, -1, 1).astype("f4")
ARRAYS["t"] = np.array([0, 1, 2, 3])
BOTH = (torch, fx.torch)


def dtypes(x):
    if isinstance(x, tuple | list):
        return [dtypes(v) for v in x]
    return None if x is None else str(x.dtype).removeprefix("torch.")


def under(library, line, region, given):
    """The dtypes that an expression gives in a region; None where the library refuses."""
    names = {"torch": library, "F": library.nn.functional, "nn": library.nn}
    for name, array in ARRAYS.items():
        x = library.tensor(array)
        names[name] = x.to(getattr(library, given)) if array.dtype.kind == "f" else x
    try:
        with warnings.catch_warnings(), library.autocast("cpu", dtype=getattr(library, region)):
            warnings.simplefilter("ignore")
            return dtypes(eval(line, names))
    except (RuntimeError, TypeError, ValueError):
        return None


@pytest.mark.parametrize("line", LINES.strip().split("\n"))
def test_dtypes_are_torchs(line):
    compared = 0
    for region, given in itertools.product(
        ("bfloat16", "float16"), ("float32", "bfloat16", "float16", "float64")
    ):
        expected = under(torch, line, region, given)
        if expected is not None:
            assert under(fx.torch, line, region, given) == expected, (region, given)
            compared += 1
    assert compared, line


def model(library, activation="Tanh"):
    nn = library.nn
    net = nn.Sequential(
        nn.Conv1d(2, 3, 3), getattr(nn, activation)(), nn.Flatten(), nn.Linear(18, 5),
        nn.LayerNorm(5), nn.Linear(5, 4),
    )  # fmt: skip
    draws = np.random.default_rng(1)
    with library.no_grad():
        for p in net.parameters():
            p.copy_(library.tensor(draws.standard_normal(tuple(p.shape)).astype("f4") * 0.3))
    return net


X = np.random.default_rng(2).standard_normal((6, 2, 8)).astype("f4")
Y = np.array([0, 1, 2, 3, 0, 1])


def losses(library, dtype, steps=4, jit=False, scaler=None):
    """Some steps of training in a region: the losses and the parameters at the end."""
    net = model(library)
    optimizer = library.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = library.tensor(X), library.tensor(Y)

    def step(x, y):
        optimizer.zero_grad()
        with library.autocast("cpu", dtype=getattr(library, dtype)):
            out = net(x)
            loss = library.nn.functional.cross_entropy(out, y)
        assert str(out.dtype).endswith(dtype) and str(loss.dtype).endswith("float32")
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss

    step = fx.jit(step) if jit else step
    seen = [step(x, y).item() for _ in range(steps)]
    for p in net.parameters():
        assert str(p.dtype).endswith("float32") and str(p.grad.dtype).endswith("float32")
    return seen, [p.detach().numpy() for p in net.parameters()]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("jit", [False, True])
def test_training_agrees_with_torch(dtype, scaled, jit):
    wide = {"bfloat16": 2e-2, "float16": 3e-3}[dtype]
    results = [
        losses(t, dtype, jit=jit and t is not torch,
               scaler=t.amp.GradScaler("cpu", init_scale=256.0) if scaled else None)
        for t in BOTH
    ]  # fmt: skip
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=wide, atol=wide)
    for got, expected in zip(results[1][1], results[0][1]):
        np.testing.assert_allclose(got, expected, rtol=wide, atol=wide)


def test_products_are_those_of_the_rounded_operands():
    a = rng.standard_normal((5, 7)).astype("f4")
    b = rng.standard_normal((7, 3)).astype("f4")
    for dtype in ("bfloat16", "float16"):
        with torch.autocast("cpu", dtype=getattr(torch, dtype)):
            expected = torch.tensor(a) @ torch.tensor(b)
        with fx.torch.autocast("cpu", dtype=getattr(fx.torch, dtype)):
            got = fx.tensor(a) @ fx.tensor(b)
        ulp = 2.0 ** {"bfloat16": -8, "float16": -11}[dtype]
        np.testing.assert_allclose(
            got.float().numpy(), expected.float().numpy(), rtol=2 * ulp, atol=2 * ulp
        )


def test_under_transforms():
    """jit, grad and vmap see the region that they are called in, and the one they open."""
    t = fx.torch
    w, x = t.tensor(ARRAYS["a"]), t.tensor(ARRAYS["q"])

    def f(w, x):
        return (x @ w).float().sum()

    def inside(w, x):
        with t.autocast("cpu"):
            out = x @ w
            assert out.dtype == t.bfloat16
        return out.float().sum()

    plain, step = fx.grad(f)(w, x), fx.jit(f)
    outside = step(w, x)
    with t.autocast("cpu"):
        rounded, within = fx.grad(f)(w, x), step(w, x)
        assert within.item() == f(w, x).item()
        lanes = fx.vmap(lambda a: a @ w)(x)
        assert lanes.dtype == t.bfloat16
    assert step(w, x).item() == outside.item() != within.item()
    assert rounded.dtype == t.float32 and not (rounded == plain).all()
    for g in (fx.grad(inside)(w, x), fx.jit(fx.grad(inside))(w, x), fx.grad(fx.jit(inside))(w, x)):
        np.testing.assert_array_equal(g.numpy(), rounded.numpy())
    assert len(step.explain()) == 2 if isinstance(step.explain(), list) else True


def test_regions_nest_and_end():
    for t in BOTH:
        x = t.ones(2, 2)
        seen = []
        with t.autocast("cpu", dtype=t.bfloat16):
            seen.append((x @ x).dtype)
            with t.autocast("cpu", enabled=False):
                seen += [(x @ x).dtype, t.is_autocast_enabled("cpu")]
                with t.autocast("cpu", dtype=t.float16):
                    seen.append((x @ x).dtype)
            seen += [(x @ x).dtype, t.is_autocast_enabled("cpu"), t.is_autocast_enabled()]
        seen += [(x @ x).dtype, t.is_autocast_enabled("cpu"), t.get_autocast_dtype("cpu")]
        with pytest.raises(ZeroDivisionError), t.autocast("cpu"):
            1 / 0
        other = []
        with t.autocast("cpu"):
            thread = threading.Thread(target=lambda x=x, o=other: o.append((x @ x).dtype))
            thread.start()
            thread.join()

        @t.autocast("cpu", dtype=t.float16)
        def f(a):
            return a @ a

        seen += [(x @ x).dtype, other[0], f(x).dtype, f(f(x)).dtype]
        names = [str(s).removeprefix("torch.") for s in seen]
        expected = (
            "bfloat16 float32 False float16 bfloat16 True False float32 False bfloat16 "
            "float32 float32 float16 float16"
        )
        assert " ".join(names) == expected


def test_what_cannot_be_cast_for():
    for t in BOTH:
        with pytest.warns(UserWarning, match="CUDA is not available. +Disabling|Disabling"):
            region = t.autocast("cuda")
        with region:
            assert (t.ones(2, 2) @ t.ones(2, 2)).dtype == t.float32
        with pytest.warns(UserWarning, match="only supports dtypes? of torch.bfloat16"):
            t.autocast("cpu", dtype=t.float64)
        with pytest.raises(RuntimeError):
            t.autocast("tpu")
        with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
            scaler = t.amp.GradScaler("cuda")
        assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.state_dict() == {}


def test_custom_functions():
    results = []
    for t in BOTH:

        class Product(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu")
            def forward(ctx, a, b, t=t):
                ctx.save_for_backward(a, b)
                return a @ b

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                return g @ b.mT, a.mT @ g

        class Wide(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu", cast_inputs=t.float32)
            def forward(ctx, a, t=t):
                return a @ a

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                return g @ g

        a = t.tensor(ARRAYS["a"], requires_grad=True)
        with t.autocast("cpu"):
            y, z = Product.apply(a, a), Wide.apply(a.bfloat16())
        y.sum().backward()
        outside = Product.apply(a, a)
        results.append([str(d.dtype).removeprefix("torch.") for d in (y, z, a.grad, outside)])
        results[-1].append(a.grad.numpy())
    assert results[0][:4] == results[1][:4]
    np.testing.assert_allclose(results[0][4], results[1][4], rtol=2e-2, atol=2e-2)


def scaled_run(t, gradients, **options):
    """What a scaler does with given gradients: factor, good steps and the parameter after each."""
    p = t.nn.Parameter(t.ones(3))
    optimizer = t.optim.SGD([p], lr=0.5)
    scaler = t.amp.GradScaler("cpu", growth_interval=2, init_scale=8.0, **options)
    seen = []
    for i, g in enumerate(gradients):
        optimizer.zero_grad()
        scaler.scale((p * t.tensor([g, 1.0, -1.0])).sum()).backward()
        if i % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update(3.0 if i == 6 else None)
        state = scaler.state_dict()
        seen.append((state["scale"], state["_growth_tracker"], p.detach().tolist()))
    return seen, state, scaler


def test_the_scaler_finds_its_factor_as_torchs():
    gradients = [1.0, 2.0, math.inf, 0.5, math.nan, 1.0, 1.0, 1.0, 3e38, 1.0, 1.0]
    for options in ({}, {"growth_factor": 3.0, "backoff_factor": 0.25}):
        expected, state, _ = scaled_run(torch, gradients, **options)
        got, mine, scaler = scaled_run(fx.torch, gradients, **options)
        assert got == expected and mine == state
        again = fx.torch.amp.GradScaler("cpu")
        again.load_state_dict(state)
        assert again.state_dict() == scaler.state_dict() == state


def test_the_scaler_says_what_is_wrong():
    for t in BOTH:
        p = t.nn.Parameter(t.ones(2))
        optimizer, scaler = t.optim.SGD([p], lr=0.1), t.amp.GradScaler("cpu")
        with pytest.raises(AssertionError, match="No inf checks"):
            scaler.scale(p.sum())
            scaler.update()
        with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
            scaler.step(optimizer)
        scaler = t.amp.GradScaler("cpu")
        scaler.scale(p.sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="already been called on this optimizer"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="already been called since the last update"):
            scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="after step"):
            scaler.unscale_(optimizer)
        scaler.update()
        half = t.nn.Parameter(t.ones(2, dtype=t.float16))
        scaler.scale(half.sum()).backward()
        with pytest.raises(ValueError, match="FP16"):
            scaler.unscale_(t.optim.SGD([half], lr=0.1))
        with pytest.raises(RuntimeError, match="empty"):
            scaler.load_state_dict({})


def test_a_jitted_step_leaves_out_what_overflows():
    """The branch on inf is a branch of the compiled step; the factor is state of it."""
    t = fx.torch
    runs = []
    for jit in (False, True):
        p = t.nn.Parameter(t.ones(3))
        optimizer = t.optim.SGD([p], lr=0.5, momentum=0.9)
        scaler = t.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def step(x, p=p, optimizer=optimizer, scaler=scaler):
            optimizer.zero_grad()
            scaler.scale((p * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

        run = fx.jit(step) if jit else step
        seen = []
        for g in (1.0, 2.0, math.inf, 0.5, 1.0, 1.0):
            run(t.tensor([g, 1.0, 2.0]))
            seen.append((scaler.get_scale(), p.detach().tolist()))
        runs.append(seen)
    assert runs[0] == runs[1]
