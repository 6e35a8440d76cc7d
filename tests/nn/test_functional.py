"""Functions of fx.nn.functional against torch's: values and gradients."""

import numpy as np
import pytest

import fx
from fx.errors import AxisError, DTypeError, IndexingError, InPlaceError, ShapeError

torch = pytest.importorskip("torch")
from tests.nn.oracle import arrays, check, close

F, T = fx.nn.functional, torch.nn.functional

# activations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("relu", {}),
        ("relu6", {}),
        ("hardtanh", {"min_val": -0.5, "max_val": 0.7}),
        ("leaky_relu", {"negative_slope": 0.2}),
        ("elu", {"alpha": 0.7}),
        ("gelu", {}),
        ("gelu", {"approximate": "tanh"}),
        ("silu", {}),
        ("sigmoid", {}),
        ("tanh", {}),
        ("softplus", {"beta": 2.0, "threshold": 3.0}),
        ("logsigmoid", {}),
        ("softmax", {"dim": 1}),
        ("log_softmax", {"dim": -1}),
        ("softmin", {"dim": 0}),
    ],
    ids=str,
)
def test_activations(name, options):
    (x,) = arrays((3, 4))
    check(lambda x: getattr(F, name)(x, **options), lambda x: getattr(T, name)(x, **options), x * 3)


def test_elu_does_not_overflow_on_the_side_not_taken():
    x = fx.tensor([1000.0, -1000.0], requires_grad=True)
    F.elu(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 0.0])


@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 3, 4), (2, 3, 4, 2)])
def test_softmax_without_a_dim_takes_pytorchs(shape):
    (x,) = arrays(shape)
    with pytest.warns(UserWarning, match="Implicit dimension"):
        expected = T.softmax(torch.tensor(x))
    close(F.softmax(fx.tensor(x)), expected)


def test_softmax_in_another_dtype():
    (x,) = arrays((3, 4), dtype="float32")
    close(
        F.log_softmax(fx.tensor(x), 1, dtype=fx.float64),
        T.log_softmax(torch.tensor(x), 1, dtype=torch.float64),
    )


def test_activation_errors():
    with pytest.raises(ValueError, match="gelu: approximate must be 'none' or 'tanh', got 'erf'"):
        F.gelu(fx.ones(2), approximate="erf")
    with pytest.raises(AxisError, match="softmax: axis 2 is out of range for shape"):
        F.softmax(fx.ones((2, 2)), dim=2)


# linear and padding -----------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(lead, bias):
    xs = arrays((*lead, 4), (5, 4), (5,))
    check(F.linear, T.linear, *xs[: 2 + bias])


def test_linear_of_a_vector_weight():
    check(F.linear, T.linear, *arrays((3, 4), (4,)))


def test_linear_refuses_what_does_not_fit():
    with pytest.raises(
        ShapeError, match=r"linear: an input of shape \(2, 3\) does not fit a weight"
    ):
        F.linear(fx.ones((2, 3)), fx.ones((5, 4)))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [(1, 2), (2, 1, 0, 3), (0, 0, 1, 1)])
def test_pad(mode, widths):
    (x,) = arrays((1, 2, 4, 5))
    if len(widths) == 2:
        x = x[0]
    check(lambda x: F.pad(x, widths, mode), lambda x: T.pad(x, widths, mode), x)


@pytest.mark.parametrize("widths", [(-1, 2), (-1, -1, 1, -2), (-2, 0)])
def test_pad_cuts_where_widths_are_negative(widths):
    (x,) = arrays((3, 4))
    check(lambda x: F.pad(x, widths, value=2.5), lambda x: T.pad(x, widths, value=2.5), x)


def test_pad_errors():
    x = fx.ones((2, 3))
    with pytest.raises(ShapeError, match="pad: widths come in pairs"):
        F.pad(x, (1,))
    with pytest.raises(ShapeError, match="cut off more than"):
        F.pad(x, (-2, -2))
    with pytest.raises(ShapeError, match="with mode='reflect' reach beyond axis 1"):
        F.pad(x, (3, 0), mode="reflect")
    with pytest.raises(ValueError, match="pad: mode must be one of constant, reflect"):
        F.pad(x, (1, 1), mode="mirror")


# normalisation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 3, 4, 2)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_in_training_and_evaluation(shape, affine):
    x, w, b, mean, var = arrays(shape, (3,), (3,), (3,), (3,))
    more = (w, b) if affine else ()
    check(
        lambda x, *wb: F.batch_norm(x, None, None, *wb, training=True),
        lambda x, *wb: T.batch_norm(x, None, None, *wb, training=True),
        x,
        *more,
    )
    running = (mean, var**2)
    check(
        lambda x, *wb: F.batch_norm(x, *map(fx.tensor, running), *wb),
        lambda x, *wb: T.batch_norm(x, *map(torch.tensor, running), *wb),
        x,
        *more,
    )


def test_batch_norm_rebinds_running_statistics():
    x, mean, var = arrays((4, 3, 2), (3,), (3,))
    a, b = fx.nn.Buffer(fx.tensor(mean)), fx.nn.Buffer(fx.tensor(var))
    c, d = torch.tensor(mean), torch.tensor(var)
    F.batch_norm(fx.tensor(x), a, b, training=True, momentum=0.3)
    T.batch_norm(torch.tensor(x), c, d, training=True, momentum=0.3)
    close(a, c)
    close(b, d)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_of_batch_norm_record_the_batch_and_follow_its_statistics(affine, dtype):
    found = []
    for lib, hold in ((fx, fx.nn.Buffer), (torch, lambda x: x)):
        shapes = (5, 3, 2), (5, 3, 2), (3,), (3,), (3,)
        x, ct, mean, *more = [lib.tensor(v.astype(dtype)) for v in arrays(*shapes)]
        wanted = [v.requires_grad_() for v in (x, *more[: 2 * affine])]
        mean, var = hold(mean), hold(lib.ones(3, dtype=mean.dtype))
        norm = lib.nn.functional.batch_norm
        for momentum in (0.1, 0.4):
            y = norm(x, mean, var, *wanted[1:], training=True, momentum=momentum)
        (first,) = lib.autograd.grad((y * ct).sum(), x, create_graph=True)
        (first * ct + y**2).sum().backward()
        found.append([y, mean, var, *[v.grad for v in wanted]])
    for ours, theirs in zip(*found, strict=True):
        assert str(ours.dtype).endswith(np.dtype(dtype).name)
        close(ours.detach(), theirs.detach())


def test_batch_norm_errors():
    x = fx.ones((2, 3))
    with pytest.raises(InPlaceError, match=r"pass fx.nn.Buffer\(running_mean\)"):
        F.batch_norm(x, fx.zeros(3), fx.ones(3), training=True)
    with pytest.raises(ValueError, match="expected more than 1 value per channel when training"):
        F.batch_norm(fx.ones((1, 3)), None, None, training=True)
    with pytest.raises(ShapeError, match=r"weight must have shape \(3,\)"):
        F.batch_norm(x, None, None, fx.ones(2), training=True)


@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 3, 4)])
def test_layer_norm(sizes):
    x, w, b = arrays((2, 3, 4), sizes, sizes)
    check(
        lambda *a: F.layer_norm(a[0], sizes, *a[1:]),
        lambda *a: T.layer_norm(a[0], sizes, *a[1:]),
        x,
        w,
        b,
    )
    check(lambda x: F.layer_norm(x, sizes, eps=0.1), lambda x: T.layer_norm(x, sizes, eps=0.1), x)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm(groups):
    x, w, b = arrays((2, 4, 3, 2), (4,), (4,))
    check(
        lambda *a: F.group_norm(a[0], groups, *a[1:]),
        lambda *a: T.group_norm(a[0], groups, *a[1:]),
        x,
        w,
        b,
    )


@pytest.mark.parametrize("p", [1, 2, 3.0, float("inf")])
def test_normalize(p):
    (x,) = arrays((3, 4))
    check(lambda x: F.normalize(x, p, dim=1), lambda x: T.normalize(x, p, dim=1), x)


def test_normalize_at_zero_has_a_finite_gradient():
    x = fx.zeros((1, 3), requires_grad=True)
    F.normalize(x).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_narrow_floats_take_their_statistics_in_float32(dtype):
    (a,) = arrays((4, 8), dtype="float32")
    x = fx.tensor(a + 30).astype(dtype)
    t = torch.tensor(x.astype(fx.float64).numpy())
    for got, expected in [
        (F.layer_norm(x, 8), T.layer_norm(t, (8,))),
        (F.group_norm(x, 2), T.group_norm(t, 2)),
        (F.batch_norm(x, None, None, training=True), T.batch_norm(t, None, None, training=True)),
    ]:
        assert got.dtype == dtype
        got = got.astype(fx.float64).numpy()
        np.testing.assert_allclose(got, expected.numpy(), rtol=2**-8, atol=1e-3)


def test_norm_errors():
    with pytest.raises(ShapeError, match=r"does not end in normalized_shape \(4,\)"):
        F.layer_norm(fx.ones((2, 3)), 4)
    with pytest.raises(ShapeError, match="cannot be cut into 2 groups"):
        F.group_norm(fx.ones((1, 3)), 2)


# look-ups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"padding_idx": 1}, {"padding_idx": -1}, {"scale_grad_by_freq": True}],
    ids=str,
)
def test_embedding(options):
    (w,) = arrays((5, 3))
    idx = np.array([[0, 1, 4], [1, 1, 2]])
    check(
        lambda w: F.embedding(fx.tensor(idx), w, **options),
        lambda w: T.embedding(torch.tensor(idx), w, **options),
        w,
    )


def test_embedding_scales_long_rows():
    (w,) = arrays((5, 3))
    idx = np.array([0, 3, 3])
    ours, theirs = fx.nn.Parameter(fx.tensor(w)), torch.nn.Parameter(torch.tensor(w))
    got = F.embedding(fx.tensor(idx), ours, max_norm=0.5, norm_type=1.0)
    close(got, T.embedding(torch.tensor(idx), theirs, max_norm=0.5, norm_type=1.0))
    close(ours, theirs)
    with pytest.raises(InPlaceError, match="max_norm scales rows of the weight"):
        F.embedding(fx.tensor(idx), fx.tensor(w), max_norm=0.5)


def test_one_hot():
    idx = np.array([[0, 2], [1, 1]])
    for classes in (-1, 5):
        close(F.one_hot(fx.tensor(idx), classes), T.one_hot(torch.tensor(idx), classes))


def test_look_up_errors():
    w = fx.ones((4, 2))
    with pytest.raises(DTypeError, match="embedding takes integer indices, got float32"):
        F.embedding(fx.ones(2), w)
    with pytest.raises(IndexingError, match=r"outside 0\.\.3"):
        F.embedding(fx.tensor([4]), w)
    with pytest.raises(ShapeError, match="padding_idx 4 is out of range for 4 rows"):
        F.embedding(fx.tensor([0]), w, padding_idx=4)


# attention --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "scale"])
def test_attention(kind):
    q, k, v, bias = arrays((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 6), (4, 5))
    options, theirs = {}, {}
    if kind == "causal":
        options = theirs = {"is_causal": True}
    elif kind == "scale":
        options = theirs = {"scale": 0.3}
    elif kind != "none":
        mask = bias if kind == "float" else bias > -0.5
        options, theirs = {"attn_mask": fx.tensor(mask)}, {"attn_mask": torch.tensor(mask)}
    check(
        lambda *a: F.scaled_dot_product_attention(*a, **options),
        lambda *a: T.scaled_dot_product_attention(*a, **theirs),
        q,
        k,
        v,
    )


def test_attention_to_nothing_is_zero_and_so_is_its_gradient():
    q, k, v = arrays((2, 4), (3, 4), (3, 4))
    mask = np.array([[True, False, True], [False, False, False]])
    xs = [fx.tensor(a, requires_grad=True) for a in (q, k, v)]
    out = F.scaled_dot_product_attention(*xs, attn_mask=fx.tensor(mask))
    np.testing.assert_array_equal(out[1].detach().numpy(), 0.0)
    out.sum().backward()
    assert all(np.isfinite(x.grad.numpy()).all() for x in xs)


def test_attention_with_shared_heads():
    q, k, v = arrays((2, 6, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8))
    check(
        lambda *a: F.scaled_dot_product_attention(*a, enable_gqa=True),
        lambda *a: T.scaled_dot_product_attention(*a, enable_gqa=True),
        q,
        k,
        v,
    )


def test_attention_errors():
    x = fx.ones((2, 3, 4))
    with pytest.raises(ValueError, match="either attn_mask or is_causal=True, not both"):
        F.scaled_dot_product_attention(x, x, x, attn_mask=fx.ones((3, 3)), is_causal=True)
    with pytest.raises(ShapeError, match=r"takes query .* key .* and value"):
        F.scaled_dot_product_attention(x, fx.ones((2, 3, 5)), x)
    whole, wide = fx.arange(24).reshape(2, 3, 4), x.astype(fx.float64)
    for q, k, v in ((whole, whole, whole), (x, x, wide), (wide, x, x), (x, whole, x)):
        for f in (F.scaled_dot_product_attention, fx.jit(F.scaled_dot_product_attention)):
            with pytest.raises(DTypeError, match=r"one floating dtype, got .*\.astype\("):
                f(q, k, v)
        with pytest.raises(RuntimeError):
            T.scaled_dot_product_attention(
                *(torch.tensor(z.tolist(), dtype=getattr(torch, z.dtype.name)) for z in (q, k, v))
            )


# dropout ----------------------------------------------------------------------------------------


def test_dropout_keeps_the_mean_and_repeats_with_the_seed():
    x = fx.ones(100_000)
    fx.manual_seed(0)
    y = F.dropout(x, 0.3)
    assert abs(float((y == 0).mean(dtype=fx.float64)) - 0.3) < 0.01
    assert abs(float(y.mean()) - 1.0) < 0.02
    fx.manual_seed(0)
    assert bool((F.dropout(x, 0.3) == y).all())
    assert not bool((F.dropout(x, 0.3) == y).all())


def test_dropout_at_the_ends_and_its_gradient():
    x = fx.ones(50, requires_grad=True)
    assert F.dropout(x, 0.5, training=False) is x
    np.testing.assert_array_equal(F.dropout(x, 1.0).detach().numpy(), 0.0)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        F.dropout(x, 1.5)


def test_dropout_under_vmap_is_the_loop_lane_by_lane():
    x = fx.ones((4, 10))
    state = fx.get_rng_state()
    mapped = fx.vmap(F.dropout)(x)
    fx.set_rng_state(state)
    rows = []
    for i in range(4):
        with fx.random.lane(i):
            rows.append(F.dropout(x[i]))
    np.testing.assert_array_equal(mapped.numpy(), np.stack([r.numpy() for r in rows]))
    assert len({r.numpy().tobytes() for r in rows}) == 4


# under transforms -------------------------------------------------------------------------------


def test_functions_under_vmap_are_the_loop():
    x, w, b = (fx.tensor(a) for a in arrays((3, 2, 4, 6, 6), (5, 4, 3, 3), (4,)))
    functions = [
        lambda x: F.conv2d(x, w, padding=1),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, 4),
        lambda x: F.batch_norm(x, None, None, b, b, training=True),
        lambda x: F.group_norm(x, 2, b, b),
        lambda x: F.layer_norm(x, (6, 6)),
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: F.pad(x, (1, 1), mode="reflect"),
        lambda x: F.cross_entropy(x, fx.zeros((2, 6, 6), dtype=fx.int64)),
    ]
    for f in functions:
        loop = np.stack([f(x[i]).numpy() for i in range(3)])
        np.testing.assert_allclose(fx.vmap(f)(x).numpy(), loop, rtol=1e-9, atol=1e-11)


def test_hessian_of_a_convolution_against_torch():
    x, w = arrays((1, 1, 4, 4), (1, 1, 2, 2))
    got = fx.hessian(lambda w: F.conv2d(fx.tensor(x), w).tanh().sum())(fx.tensor(w))
    expected = torch.func.hessian(lambda w: T.conv2d(torch.tensor(x), w).tanh().sum())
    close(got, expected(torch.tensor(w)))


def test_meta_gives_shapes_alone():
    with fx.device("meta"):
        model = fx.nn.Sequential(
            fx.nn.Conv2d(3, 8, 3), fx.nn.MaxPool2d(2), fx.nn.Flatten(), fx.nn.Linear(8 * 9, 5)
        )
        out = F.cross_entropy(model(fx.ones((2, 3, 8, 8))), fx.zeros(2, dtype=fx.int64))
    assert out.shape == ()
    assert {p.device.name for p in model.parameters()} == {"meta"}


def test_every_name_of_all_exists():
    assert all(hasattr(fx.nn, name) for name in fx.nn.__all__)
    assert all(hasattr(F, name) for name in F.__all__)
