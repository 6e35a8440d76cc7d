"""Every layer over its constructor's options: torch's values and gradients, jit, vmap, dtypes."""

import numpy as np
import pytest

import fx

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check_layer, close
from tests.nn.tables import LAYERS, one_a_class, row_name

# torch's own warnings about what it is asked to do
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
NAMES = [row_name(row) for row in LAYERS]
FIRST = one_a_class()
KINDS = [type(row[0](fx.nn)).__name__ for row in FIRST]


@pytest.mark.parametrize("row", LAYERS, ids=NAMES)
def test_layer(row):
    make, *shapes = row
    # torch writes 1 / 6 in float32 there
    dtype = "float32" if "Hardsigmoid" in row_name(row) else "float64"
    check_layer(
        make,
        *arrays(*shapes, dtype=dtype),
        # torch's in-place layers refuse a leaf, so each gets what was computed from one
        call=lambda layer, *xs: layer(*[x * 1.0 for x in xs]),
        dtype=dtype,
    )


@pytest.mark.parametrize("row", FIRST, ids=KINDS)
def test_under_jit_and_vmap(row):
    make, *shapes = row
    layer = make(fx.nn).to("float64").eval()
    xs = [fx.tensor(a) for a in arrays(*shapes)]
    lanes = [fx.stack([x, x * 0.5, x - 1.0]) for x in xs]
    (ct,) = arrays(layer(*xs).shape, seed=9)

    def loss(*xs):
        out = layer(*xs)
        return (out * fx.tensor(ct)).sum(), out

    with fx.no_grad():
        compute = fx.value_and_grad(loss, has_aux=True)
        (_, out), gradient = fx.jit(compute)(*xs)
        (_, expected), slope = compute(*xs)
        close(out, expected, "jit")
        close(gradient, slope, "jit of the gradient")
        loop = fx.stack([layer(*[x[i] for x in lanes]) for i in range(3)])
        close(fx.vmap(layer)(*lanes), loop, "vmap")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("row", FIRST, ids=KINDS)
def test_narrow_dtypes(row, dtype):
    make, *shapes = row
    layer = make(fx.nn).eval()
    xs = [fx.tensor(a.astype("float32")) for a in arrays(*shapes)]
    expected = layer(*xs).detach().numpy()
    got = layer.to(dtype)(*[x.astype(dtype) for x in xs])
    assert str(got.dtype.name) == dtype
    loose = {"float16": 2e-2, "bfloat16": 1e-1}[dtype]
    np.testing.assert_allclose(got.astype("float32").detach().numpy(), expected, loose, loose)


@pytest.mark.parametrize(
    "row", [r for r in FIRST if list(r[0](fx.nn).parameters())], ids=lambda r: row_name(r)
)
def test_factory_arguments(row):
    def remade(nn):
        """The maker with ``device`` and ``dtype``."""

        class Nn:
            def __getattr__(self, name):
                return lambda *args, **kwargs: getattr(nn, name)(
                    *args, **kwargs, device="meta", dtype=nn_dtype
                )

        return row[0](Nn())

    nn_dtype = "float64"
    for cell in (*remade(fx.nn).parameters(), *remade(fx.nn).buffers()):
        assert cell.device.name == "meta"
        assert cell.dtype.name in ("float64", "int64")
