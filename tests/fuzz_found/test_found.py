"""Programs that the fuzzer found, as it printed them: each stays for ever."""

import math

import numpy as np
import pytest

import fx
from fx import limits
from fx.testing.fuzz import compare, derived, looped, single, training, twins, values


def test_bits_of_a_number():
    x = values.tensor((2, 3), "float32", 1)

    def f(x, n0):
        v0 = n0 | n0
        v1 = n0 & 6
        v2 = n0 >> 1
        v3 = n0.bit_length()
        return [v0, v1, v2, v3, x * v0]

    compare.calls(f, (x, 2), (x, 7), (x, 2**40))


def test_the_class_of_a_number():
    x = values.tensor((2, 3), "float32", 1)

    def f(x, n0):
        v4 = isinstance(n0, int)
        return [v4, math.isnan(n0)]

    compare.calls(f, (x, 2), (x, 2.0), (x, True))


def test_a_product_under_tiny_limits_ends():
    x0 = values.tensor((3, 3), "float64", 98, "steps") + 0.0625

    with limits.tiny():

        def f(x):
            v1 = x @ x.T
            v3 = v1.at[0].set(0.5)
            v4 = fx.concat([v3, v3], axis=0)
            return fx.mean(v4)

        derived.check(f, x0, "vg")


def test_an_interrupt_leaves_grad_mode_as_it_was():
    def layers():
        return [fx.nn.Linear(64, 64)]

    def optimizer(p):
        return fx.optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True)

    for seed in range(3):
        training.interrupted(layers, optimizer, "backward", seed, hits=40)


def test_state_that_a_function_counts_up():
    def world():
        def f(x):
            f.count += 1
            return [x * f.count]

        f.count = 0

        def change(turn):
            if turn == 2:
                f.count = 9

        return f, change, lambda: [f.count]

    compare.worlds(world, 4)


def test_an_attribute_of_an_attribute_that_is_written():
    class Point:
        y = 2

    def world():
        count, box = 0, Point()
        box.inner = Point()

        def f(x):
            nonlocal count
            box.inner.y = count
            count += 1
            return [x + box.inner.y]

        return f, lambda turn: None, lambda: [count, box.inner.y]

    compare.worlds(world, 4)


def test_a_number_that_does_not_fit_is_not_written():
    x = values.tensor((4,), "uint8", 7)

    def f(x, n0):
        return [x.at[0].set(n0), x.at[1].add(n0)]

    compare.calls(f, (x, 3), (x, -129), (x, 255), (x, 256), (x, 2.5), (x, True))


def test_a_range_of_a_fraction():
    x = values.tensor((4,), "float32", 1)

    def f(x, n0):
        return [fx.arange(abs(n0) % 6)]

    compare.calls(f, (x, 0.5), (x, 5), (x, 1e308), (x, 3.5))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["isin", "unique_values", "unique_counts"])
def test_sets_of_complex_numbers(name, dtype):
    x0 = values.tensor((3, 3), dtype, 82, "steps")
    x1 = values.tensor((3, 3), dtype, 82, "steps", "zeros")

    def f(x):
        return [fx.isin(x, x), fx.isin(x, x[0])] if name == "isin" else [getattr(fx, name)(x[:1])]

    for x in (x0, x1):
        compare.compiled(f, x)
        if name == "isin":
            compare.batched(f, x)
    tests = x0[1] * 1j
    want = np.isin(x0.numpy(), tests.numpy())
    assert (fx.isin(x0, tests).numpy() == want).all()


def test_numbers_of_numpy_with_numbers():
    def f(x, n0, n1):
        return [np.float32(2) * n0, np.int8(3) < n0, np.bool_(True) + n0, n0 % np.float64(7), n1]

    def g(x, n0, n1):
        return [n1 + n0, n1 | n0, n0 * n1, np.maximum(n0, n1), np.add(n0, 1), x * (n0 + n1)]

    x = values.tensor((4,), "float32", 1)
    for n1 in (np.bool_(True), np.int16(3), np.float32(0.1), 2):
        for function in (f, g):
            numbers = (2, 300, 2**31, 2**63, 2**64, 0.3, float("inf"), True)
            compare.calls(function, *[(x, n, n1) for n in numbers])


def test_numbers_beyond_int64_in_every_dtype():
    def f(x, n0):
        return [fx.full_like(x, n0)]

    for dtype in ("bool", "bfloat16", "float16", "int64", "uint64", "complex64"):
        x = values.tensor((4,), dtype, 1)
        compare.calls(f, (x, 2**64), (x, 3), (x, -(2**63)), (x, 2**63), (x, 10**20))
    assert fx.full_like(fx.ones(2, dtype=fx.bool), 2**64).tolist() == [True, True]
    assert fx.full((), 2**64, dtype=fx.bfloat16) == 2.0**64


def test_of_two_errors_the_first_is_raised():
    x = values.tensor((4,), "int64", 32)  # some are negative

    def power(x, n0):
        return [fx.power(n0, x), x << 2.0]

    def take(x, n0):
        return [x[fx.asarray(n0)].reshape(7)]

    compare.calls(power, (x, 2), (fx.abs(x), 2))
    compare.calls(take, (x, 9), (x, 2), (x, -9))


def test_a_loop_of_no_turns_runs_nothing():
    a0, xs = values.tensor((2, 3), "float64", 47), values.tensor((0, 2, 3), "float64", 34)

    def step(i, a, b, x):
        return fx.logsumexp(a, axis=-1), b, b

    looped.fori(step, a0, a0, xs, "value")


def test_a_checkpoint_of_a_map_with_a_rule_of_its_own():
    @fx.custom_jvp
    def halved(v):
        return fx.sin(v) * 0.5

    halved.defjvp(lambda v, t: (fx.sin(v[0]) * 0.5, fx.cos(v[0]) * t[0] * 0.5))
    a0 = values.tensor((3,), "float64", 26)
    xs = values.tensor((2, 3), "float64", 1)

    def step(i, a, b, x):
        return a, b, halved(b) * x

    for ask in ("checkpoint", "second", "vmap"):
        looped.map_scan(step, a0, a0, xs, ask)


def test_one_element_beside_all_of_them_is_not_overwritten():
    x1 = values.tensor((3, 513), "float32", 14)

    with limits.tiny():

        def f(x1):
            v8 = fx.logsumexp(x1, axis=0)
            v10 = v8 + v8[0]
            return [v10]

        compare.compiled(f, x1)


def test_a_signal_handler_in_a_file_of_fx_is_a_signal_handler():
    for seed in (661, 558, 913):
        training.interrupted(
            lambda: [fx.nn.LayerNorm(64)], lambda p: fx.optim.Adam(p), "jit", seed, hits=40
        )


def test_primitives_4242_450():
    """Padding behind a window as long as its line: there are two windows and not one."""
    single.primitive("window_sum", 200, "float32")


def test_numbers_20261123_63():
    """The length of a range is an int, also where it is computed of a number that is staged."""

    def f(x, n):
        return [fx.arange(abs(n) % 6)]

    compare.calls(f, (values.tensor((2, 3), "float32", 1), 1e39))


def test_derivatives_20261123_74():
    """A kernel with values between its steps has memory for them, also if there is one step."""
    x0 = values.tensor((2, 3), "float64", 66) + 0.0625

    with limits.tiny():
        derived.check(lambda x: fx.sum(fx.sin(fx.nn.functional.silu(x))), x0, "g")


@pytest.mark.parametrize("n", [3, 1000])
def test_a_cotangent_that_is_one_number_everywhere(n):
    derived.check(lambda x: fx.sum(fx.nn.functional.silu(x)), fx.linspace(-1, 1, n), "g")


def test_derivatives_424242_121():
    """A formula of many steps: a kernel's list had no room for all arrays between them."""
    x0 = values.tensor((5,), "float64", 98) + 0.0625
    with limits.tiny():
        derived.check(lambda x: fx.mean(fx.nn.functional.layer_norm(x, (5,))), x0, "g")


def a_view_is_written():
    """From here on this process notes views."""
    twins.agree("x0 = torch.zeros(3)\nv1 = x0[1:]\nv1 += 1.0")


def test_loops_424242_341_after_a_write():
    """What a compiled function gives back as it got it has the gradient of what is around."""
    a_view_is_written()
    a0, b0 = values.tensor((3,), "float64", 37), values.tensor((3,), "float64", 11)
    looped.python(lambda i, a, b, x: (b, a, a), a0, b0, fx.zeros((0, 3)), "grad")


def test_numbers_424242_39_after_a_write():
    """A result that is a view at a place which calls differ in."""
    a_view_is_written()
    x = values.tensor((4,), "float64", 29)
    compare.calls(lambda x, n: [x[n % 2]], (x, 3), (x, 2.0), (x, 2))


def test_graphs_52_19():
    """Complex numbers have no maximum, not even where there are none of them."""
    x = values.tensor((0, 3), "complex64", 22, "dense", "none")
    compare.compiled(lambda x: fx.nn.functional.max_pool1d(x[None], 2), x)


def test_jitwrites_82_216():
    """The gradient of a masked write in a program of two segments."""
    text = """
    x1 = torch.tensor([[-0.5, -1.375], [1.875, -1.0]], requires_grad=True)
    x2 = torch.ones(2, 2)
    @jit
    def f4(p5):
        c7 = p5.sum() < 0.123
        y8 = (1.5 + p5 * p5).log()
        y8[y8 > 0.123] /= (1.5 + (y8.mean().item()) ** 2)
        if not c7:
            pass
        return (x2 * 1).contiguous(), (p5 * 1).contiguous()
    y12, y13 = f4(x1)
    """
    twins.agree(text, every=100)


def test_derivatives_81_1106():
    """Results of a loop are known where it is linearized inside of jit."""
    x0 = values.tensor((3, 3), "float64", 47) + 0.0625

    def f(x):
        v0 = fx.fori_loop(0, 2, lambda i, v: fx.sin(v) + 0.1, x)
        return fx.mean(fx.checkpoint(lambda v: fx.sin(v) * v)(v0))

    derived.check(f, x0, "l")


TEXTS = ["float64", "%s", "%.3f", "%d", "%s-%s", b"%d", b"none"]


@pytest.mark.parametrize("number", [np.float64(0.5), np.float32(2), np.int64(3), 0.5, 3, True])
def test_numbers_62_13(number):
    """What text does with a number after ``%``: NumPy's count as mappings, which need no place."""
    x = values.tensor((4,), "float32", 1)
    for text in TEXTS:
        compare.calls(lambda x, n, text=text: [text % n], (x, number), (x, number + 1))


def test_numbers_91_67():
    x = values.tensor((4,), "float32", 1)
    compare.calls(lambda x, n: [fx.repeat(x, n % 4)], (x, np.float32(1.5)), (x, np.int64(6)))


def test_graphs_91_126():
    """A complex number is no False because its real part is 0."""
    x = values.tensor((1, 3), "complex128", 45, "steps")
    compare.compiled(lambda x: [fx.all(x, axis=0), x.astype(fx.bool)], x)
    numbers = np.array([0, 1j, 1, complex(0, np.nan), -0.0])
    assert fx.asarray(numbers).astype(fx.bool).tolist() == numbers.astype(bool).tolist()


def test_writes_2023_1706():
    """An array of what ``as_strided`` cuts of a buffer shares the memory of the buffer."""
    text = """
    m5 = torch.nn.BatchNorm1d(2)
    n8 = m5.running_mean.as_strided((1,), (1,)).numpy()
    m5.running_mean.unsqueeze(-1).fill_(1.5)
    n8[0] = 0.5
    """
    twins.agree(text)


def test_a_first_write_beside_arrays_that_run_backwards():
    x = fx.arange(15)
    held = [x[::-1][None], x.reshape(5, 3)[:, ::-1][:, None]]
    twins.agree(
        """
        x0 = torch.tensor([-0.625, 1.125, 0.125], requires_grad=True)
        y4 = x0.roll(1).sin()
        torch.split(y4, [0, 3])[1] **= 2
        y4[...] = 0.25
        """,
        first=True,
        single=True,
    )
    assert held[1][0].tolist() == [[2, 1, 0]]


@pytest.mark.parametrize("recorded", ["m3(m3.bias)", "m3.bias * m3.bias", "m3.bias.exp().cos()"])
@pytest.mark.parametrize("array", ["m3.state_dict()['bias']", "m3.bias.detach()", "m3.bias.data"])
@pytest.mark.parametrize("early", [False, True])
def test_writes_2404_1830(recorded, array, early):
    """NumPy says nothing of what it writes: pullbacks see it, as torch's do."""
    lend = f"n8 = {array}.numpy()"
    twins.agree(
        f"""
        m3 = torch.nn.Linear(2, 2); _ = [torch.nn.init.constant_(p, 0.5) for p in m3.parameters()]
        {lend if early else ""}
        y5 = {recorded}
        {"" if early else lend}
        n8[0] = -0.25
        (y5.sin().mean() + (m3.bias * 0.5).sum()).backward()
        """
    )


def test_jitwrites_402_3687():
    """torch gives ``out`` another shape before it refuses the operands."""
    text = """
    x0 = torch.arange(12.0).view(3, 4)
    @jit
    def f5(p6):
        return x0[::2]
    y8 = f5(x0)
    torch.gather(y8.clone(), 1, torch.tensor([[0, 2, 1, 3]] * 3), out=y8)
    """
    with pytest.raises(compare.Invalid):
        twins.agree(text)


_OF_A_SUM = {
    "cubed": lambda s: s**3,
    "sign": lambda s: fx.copysign(fx.abs(s) + 1, s),
    "rounded": lambda s: fx.trunc(s),
    **{
        name: getattr(fx, name)
        for name in ("sin", "tan", "tanh", "sinh", "arctan", "arcsinh", "erf", "expm1")
    },
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["dense", "every second", "backwards", "transposed"])
def test_graphs_2501_2814(dtype, source, layout):
    """What takes its sign from a sum that was rounded twice, one number at a time."""
    x0 = values.tensor((5, 31), source, 69)
    cut = {
        "dense": lambda v: v,
        "every second": lambda v: v[..., ::2],
        "backwards": lambda v: v[..., ::-1],
        "transposed": lambda v: v.mT[::3],
    }[layout]

    def f(x0):
        s = fx.sum(cut(fx.astype(x0, getattr(fx, dtype))))
        return [g(s) for g in _OF_A_SUM.values()]

    with limits.tiny():
        compare.batched(f, x0)


def test_the_sign_of_a_number_that_is_rounded_twice():
    @fx.jit
    def f(x, y):
        sign = fx.sum(x).astype(fx.float32)
        return fx.copysign(fx.sum(y), sign).astype(fx.float16)

    x = fx.asarray(np.array([-1.0, -1e-60], np.float64))
    assert f(x, fx.ones(3)).tolist() == -3.0


def test_jitwrites_2501_897():
    """An argument that is a view of a parameter that the function writes."""
    text = """
    x0 = torch.nn.Parameter(torch.ones(2))
    v4 = x0.view(2, 1)
    @jit
    @torch.no_grad()
    def f5(p6, k7):
        x0.add_(0.25)
        return (p6 * 1).contiguous()
    y9 = f5(v4, 2)
    y9 = f5(v4, 2)
    y9 = f5(v4, 2)
    """
    twins.agree(text)


@pytest.mark.parametrize("name", ["remainder", "floor_divide"])
def test_graphs_2601_1062(name):
    x0 = values.tensor((3, 0), "float32", 60)

    def f(x0):
        v10 = fx.astype(fx.zeros_like(x0), fx.int32)
        return [getattr(fx, name)(v10, v10)]

    compare.compiled(f, x0)


def test_graphs_2601_3380():
    x0 = values.tensor((3, 3), "complex128", 14, "transposed", "infinite")
    compare.compiled(lambda x: [x @ x.T], x0)


@pytest.mark.parametrize("name", ["transpose_", "swapaxes_", "t_"])
def test_writes_2602_77(name):
    p = fx.torch.nn.Parameter(fx.torch.arange(4.0).reshape(2, 2))
    v = p.data
    v[-1] = 0.5
    with pytest.raises(fx.errors.InPlaceError, match="would turn the parameter itself"):
        getattr(v, name)(*(() if name == "t_" else (0, 1)))
    assert p.tolist() == [[0, 1], [0.5, 0.5]]


def test_jitwrites_2701_1259():
    text = """
    x1 = torch.tensor([1.25, 1.125], requires_grad=True)
    @jit
    def f5(p6, k7):
        return (x1 * 1).contiguous()
    y12 = f5(x1, 0)
    @jit
    def f14(p15):
        y16 = f5(x1, 3)
        return y16, (y16 * 1).contiguous()
    y17, y18 = f14(y12)
    """
    twins.agree(text)


def test_jitwrites_2701_2139():
    text = """
    x1 = torch.tensor([-1.25, 0.5])
    @jit
    def f4(p5, p6):
        x7 = torch.tensor([[0.75, -0.375], [0.5, 1.375]])
        return x7.mT, (x1 * 1).contiguous()
    y8, y9 = f4(x1, x1)
    y10, y11 = f4(y9, x1)
    v16 = torch.select(y10, 1, 1)
    torch.ravel(v16)[1:2].clamp_max_(1)
    """
    twins.agree(text)


@pytest.mark.parametrize("back", [".detach()", ".data", "[:2]", ".detach()[1:]", "[:2].detach()"])
@pytest.mark.parametrize("reads", ["x1.sum().backward()", "x1.sum()", "pass"])
def test_jitwrites_2901_3764(reads, back):
    text = f"""
    x1 = torch.tensor([0.625, 0.0, 1.25], requires_grad=True)
    m4 = torch.nn.Module(); m4.register_buffer('kept', torch.zeros(3))
    @jit
    def f5(p6):
        {reads}
        r8 = p6.add_(1)
        return p6{back}, r8
    y11 = f5(m4.kept)
    """
    twins.agree(text)


def test_writes_2901_5801():
    text = """
    x0 = torch.tensor([1.5-1.25j, -0.75-1.25j, -1.25+1.75j, 0.75+0.5j]).reshape(2, 2)
    v1 = x0.H
    v2 = x0.sum().H
    v3 = x0[0].H
    x0.unsqueeze_(0)
    v5 = x0.H
    """
    twins.agree(text)


@pytest.mark.parametrize("given", ["x1[-2]", "x1", "x1[1:].T", "p4[-1]", "x1.detach()[0]"])
@pytest.mark.parametrize("turn", ["transpose_(0, 1)", "unsqueeze_(0)", "t_().unsqueeze_(1)"])
def test_jitwrites_2901_8860(turn, given):
    text = f"""
    x1 = torch.arange(12.0).reshape(3, 4)
    v2 = x1[1:]
    x1.{turn}
    @jit
    def f3(p4):
        return {given}
    y8 = f3(x1)
    y8.add_(1)
    v2.mul_(2)
    y9 = f3(x1)
    """
    twins.agree(text)


def test_a_value_that_two_kernels_compute():
    x0 = lambda n: values.tensor((6, n), "float32", 18)

    def f(x0):
        v4 = x0 - x0.mean(0)
        v5 = fx.amax(v4, -1)
        return [v5]

    compare.at_sizes(f, [33, 34, 36, 63, 16, 65], [x0], derived=True)


def test_an_argument_that_was_turned_in_place():
    twins.agree("""
    x1 = torch.tensor([[2.0, 1.875, -1.625], [-0.625, -0.5, -0.125], [-0.125, -0.875, -0.75]])
    @jit
    def f4(p5):
        v9 = p5.t()
        v9.contiguous().addcmul_(torch.ones_like(v9) * p5 * 0.5, torch.ones_like(v9) * p5.sum(), value=0.5)
        return (x1 * 1).contiguous(), (p5 * 1).contiguous()
    y11, y12 = f4(x1)
    y15, y16 = f4(y11)
    y15.t_()
    y38, y39 = f4(y15)
    """)  # noqa: E501


def test_windows_that_end_one_before_the_size():
    x1 = lambda n: values.tensor((n, n), "float32", 90)

    with limits.tiny():

        def f(x1):
            v2 = fx.sliding_window_view(x1, 2, axis=-1)
            return [v2]

        compare.at_sizes(f, [5, 6, 8, 17, 3], [x1], derived=False)


def test_a_view_from_outside_keeps_its_history_where_nothing_is_recorded():
    twins.agree("""
    w = torch.zeros(2)
    w[0] = 1.0
    x0 = torch.tensor([-0.375, -1.0], requires_grad=True)
    v3 = x0.unflatten(0, (1, 2))
    @jit
    def f4(p5):
        return v3, (v3 * 1).contiguous()
    y9, y10 = f4(v3)
    y11, y12 = f4(y10)
    y13, y14 = f4(y11)
    with torch.no_grad():
        y23, y24 = f4(y14)
    """)


def test_a_copy_in_order_of_a_view_with_an_axis_of_one():
    twins.agree("""
    x1 = torch.tensor([[-0.625, 0.5, -0.25], [0.25, 1.0, -0.5], [0.75, 1.625, -1.5]])
    v2 = x1.unfold(0, 3, 1)
    v2[None].contiguous()[v2[None].contiguous() > 0.123] /= (1.5 + (3) ** 2)
    """)


def test_a_detached_tensor_that_is_resized_has_the_history_of_what_its_views_are_written():
    twins.agree("""
    w = torch.zeros(2)
    w[0] = 1.0
    x1 = torch.tensor([[-0.375, -0.25, -1.875], [-2.0, -0.125, -0.625], [1.0, -0.5, -1.0]], requires_grad=True)
    v7 = x1.detach()
    y9 = x1.sort(0).values
    v12 = v7.transpose(0, 1)
    v7.resize_(5)
    v12 *= y9.clone()
    """)  # noqa: E501


def test_what_tells_of_its_history_under_forward_mode():
    w = fx.nn.Parameter(values.tensor((3,), "float64", 5))

    def f(x, n):
        v1 = x * w
        v2 = v1 * 2 if v1.grad_fn is None else x - 0.5
        return (x + v1 + v2).sum()

    compare.derived(f, "forward outside", w)


def test_attention_over_the_last_of_a_length():
    x = values.tensor((3, 40), "float32", 45)

    with limits.tiny():

        def f(x, n):
            v2 = x[..., :n][..., -6:]
            return [fx.nn.functional.scaled_dot_product_attention(v2[None], v2[None], v2[None])]

        compare.calls(f, (x, 26), (x, 37), (x, 22), (x, 4))


def test_the_mean_of_equal_slopes_is_rounded():
    x0 = lambda n: values.tensor((6, n), "float32", 45)

    def f(x0):
        v1 = x0[..., -1:] * x0  # a row of zeros, whose deviation is the root of epsilon
        v2 = fx.nn.functional.layer_norm(v1, v1.shape[-1:])
        return [fx.broadcast_to(v2, (3, *v2.shape))]

    with pytest.raises(compare.Invalid):  # PyTorch's gradient is off by as much
        compare.at_sizes(f, [33, 35, 36, 38, 15, 3, 2, 92], [x0], derived="outside")


def test_a_load_in_a_jitted_function_is_seen_by_a_view_taken_before():
    twins.agree("""
    m3 = torch.nn.Linear(3, 1); m3.load_state_dict({'weight': torch.tensor([[0.5, 0.0, -1.0]]), 'bias': torch.ones(1)})
    @jit
    def f4(p5, p6):
        v7 = m3.bias[...]
        m3.load_state_dict({k: v * 0.5 for k, v in m3.state_dict().items()})
        return (v7 * 1).contiguous()
    y8 = f4(m3.bias, m3.weight)
    """)  # noqa: E501


def test_a_history_that_does_not_fit_is_written_behind_two_detached():
    twins.agree("""
    x1 = torch.tensor([[0.75, 0.875, -0.125], [1.5, 1.5, 0.25]], requires_grad=True)
    @jit
    def f2(p3, p4):
        x5 = torch.tensor([-0.875, 2.0])
        x5.data.data.copy_(x1)
    y7, y8 = f2(x1, x1)
    """)


def test_a_number_as_a_place_in_what_is_staged_and_written():
    twins.agree("""
    x1 = torch.tensor([[True, True, True, False], [False, True, True, True]])
    @jit
    def f4(p5, k6):
        r7 = x1.data.fill_(True)
        r7.narrow(1, k6 % 2, 2).logical_not_()
        return (x1 * 1).contiguous(), (p5 * 1).contiguous()
    y9, y10 = f4(x1, 2)
    y11, y12 = f4(y10, 1)
    """)


def test_what_data_gave_is_written_by_a_function():
    twins.agree("""
    x1 = torch.nn.Parameter(torch.tensor([[0.625, -1.625, 0.875], [0.625, -1.625, 0.0]]))
    @jit
    def f5(p6, p7):
        torch.relu_(p7.data)
        torch.clamp_(p7.data[0], max=0.5)
    y8 = f5(x1, x1)
    y8 = f5(x1, x1)
    """)
