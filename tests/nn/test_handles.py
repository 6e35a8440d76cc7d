"""In-place methods of cells, `p.data` and `p.grad`: what is written through them, against torch."""

import copy
import pickle

import numpy as np
import pytest

import fx
from fx.errors import BackwardError, DTypeError, InPlaceError

torch = pytest.importorskip("torch")

from tests.nn.oracle import close

X = np.array([[0.5, -1.5, 2.0], [3.25, 0.75, -0.25]], dtype="float32")
Y = np.array([[1.5, 0.5, -2.0], [0.25, 2.0, 4.0]], dtype="float32")
MASK = X > 0
ROWS = np.array([1, 0])

# name, arguments: arrays become tensors of the library
IN_PLACE = [
    ("add_", (Y,), {"alpha": 2}), ("sub_", (Y,), {"alpha": 3}), ("mul_", (Y,), {}),
    ("div_", (Y,), {}), ("div_", (Y,), {"rounding_mode": "floor"}), ("pow_", (2,), {}),
    ("neg_", (), {}), ("abs_", (), {}), ("clamp_", (-1, 1), {}), ("clamp_min_", (0,), {}),
    ("clamp_max_", (1,), {}), ("clip_", (), {"min": 0}), ("sigmoid_", (), {}), ("tanh_", (), {}),
    ("relu_", (), {}), ("exp_", (), {}), ("sqrt_", (), {}), ("round_", (), {}), ("sign_", (), {}),
    ("reciprocal_", (), {}), ("masked_fill_", (MASK, 7.0), {}),
    ("index_fill_", (0, ROWS[:1], 9.0), {}),
    ("addcmul_", (Y, Y), {"value": 0.5}), ("addcdiv_", (X, Y), {"value": -2}),
    ("lerp_", (Y, 0.25), {}), ("copy_", (Y,), {}), ("copy_", (Y[0],), {}), ("fill_", (3,), {}),
    ("zero_", (), {}), ("fill_diagonal_", (8.0,), {}), ("cumsum_", (1,), {}), ("tril_", (), {}),
    ("triu_", (), {}), ("gt_", (0,), {}), ("eq_", (Y,), {}), ("floor_divide_", (2,), {}),
    ("remainder_", (2,), {}), ("fmod_", (2,), {}), ("masked_scatter_", (MASK, Y), {}),
    ("index_add_", (0, ROWS, Y), {}), ("index_copy_", (0, ROWS, Y), {}),
    ("index_put_", ((ROWS, ROWS), Y[0, :2]), {}),
    ("index_put_", ((np.array([0, 0]), np.array([1, 1])), Y[0, :2]), {"accumulate": True}),
    ("put_", (np.array([5, 0]), Y[0, :2]), {}), ("scatter_", (0, np.array([[1, 0, 1]]), 4.0), {}),
    ("scatter_add_", (0, np.array([[1, 0, 1]]), Y), {}), ("nan_to_num_", (), {}),
    ("add_", (0.5, Y), {}), ("sub_", (2, Y), {}), ("addcmul_", (2, Y, Y), {}),
    ("addcdiv_", (-2, X, Y), {}), ("mul_", (Y.astype("float64"),), {}),
    ("add_", (np.array(2),), {}),
]  # fmt: skip


def _in(library, x):
    if isinstance(x, np.ndarray):
        return library.tensor(x)
    return tuple(_in(library, v) for v in x) if isinstance(x, tuple) else x


@pytest.mark.filterwarnings("ignore:This overload of", "ignore:invalid value")
@pytest.mark.parametrize("name, args, kwargs", IN_PLACE, ids=lambda v: v if type(v) is str else "")
def test_in_place_methods_are_torchs(name, args, kwargs):
    ours = fx.nn.Parameter(fx.tensor(X))
    theirs = torch.tensor(X)
    getattr(theirs, name)(*_in(torch, args), **kwargs)
    handle = ours.data
    assert getattr(handle, name)(*_in(fx, args), **kwargs) is handle
    close(ours, theirs, name)
    close(handle, theirs, name)
    buffer = fx.nn.Buffer(fx.tensor(X))
    getattr(buffer, name)(*_in(fx, args), **kwargs)
    close(buffer, theirs, name)


@pytest.mark.parametrize("shape, wrap", [((5, 2), True), ((5, 2), False), ((3, 3, 3), False)])
def test_fill_diagonal(shape, wrap):
    ours, theirs = fx.nn.Buffer(fx.zeros(shape)), torch.zeros(shape)
    close(ours.fill_diagonal_(2, wrap), theirs.fill_diagonal_(2, wrap))


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "**", "//", "%"])
def test_operators_in_place(op):
    ours, theirs = fx.nn.Buffer(fx.tensor(X)), torch.tensor(X)
    same = ours
    spaces = {"ours": ours, "theirs": theirs}
    exec(f"ours {op}= 2\ntheirs {op}= 2", spaces)
    assert spaces["ours"] is same
    close(same, theirs)
    flags = fx.nn.Buffer(fx.tensor(MASK))
    flags |= fx.tensor(Y > 1)
    flags &= fx.tensor(Y < 3)
    np.testing.assert_array_equal(flags.numpy(), (MASK | (Y > 1)) & (Y < 3))


def test_in_place_keeps_shape_and_kind():
    whole = fx.nn.Buffer(fx.tensor([1, 2]))
    with pytest.raises(InPlaceError, match=r"mul_ on .* gives float32\[2\], but it holds int64"):
        whole.mul_(fx.tensor([0.5, 1]))
    whole.mul_(fx.tensor([3, 4], dtype=fx.int8)).add_(True)
    assert whole.tolist() == [4, 9] and whole.dtype == fx.int64
    with pytest.raises(InPlaceError, match=r"unsqueeze_ .* gives float32\[1,2,3\], but it holds"):
        fx.nn.Buffer(fx.tensor(X)).unsqueeze_(0)
    with pytest.raises(InPlaceError, match=r"resize_\(\) has no form that rebinds; write x = x.r"):
        fx.nn.Buffer(fx.tensor(X)).resize_(6)
    with pytest.raises(InPlaceError, match="fill_diagonal_ takes a matrix"):
        fx.nn.Buffer(fx.ones(3)).fill_diagonal_(1)
    with pytest.raises(InPlaceError, match=r"normal_ on .* requires grad .* fx.no_grad"):
        fx.nn.Parameter(fx.ones(3)).normal_()


DRAWS = {  # name: arguments, mean, standard deviation
    "normal_": ((2, 3), 2, 3),
    "uniform_": ((-1, 5), 2, 6 / 12**0.5),
    "bernoulli_": ((0.3,), 0.3, 0.21**0.5),
    "exponential_": ((4,), 0.25, 0.25),
    "geometric_": ((0.4,), 2.5, 0.6**0.5 / 0.4),
    "log_normal_": ((0, 0.25), np.exp(1 / 32), np.exp(1 / 32) * (np.exp(1 / 16) - 1) ** 0.5),
    "random_": ((4, 10), 6.5, (35 / 12) ** 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    args, mean, deviation = DRAWS[name]
    p = fx.nn.Parameter(fx.zeros((100, 200), dtype=fx.float64))
    fx.manual_seed(1)
    getattr(p.data, name)(*args)
    x = p.detach().numpy()
    assert abs(x.mean() - mean) < 5 * deviation / 20000**0.5
    assert abs(x.std() - deviation) < 0.05 * deviation
    fx.manual_seed(1)
    with fx.no_grad():
        again = getattr(fx.nn.Parameter(fx.zeros((100, 200), dtype=fx.float64)), name)(*args)
    np.testing.assert_array_equal(again.detach().numpy(), x)


def test_draws_of_all_that_a_dtype_holds():
    assert int(fx.nn.Buffer(fx.zeros(1000)).random_().max()) <= 2**24
    assert 200 < int(fx.nn.Buffer(fx.zeros(1000, dtype=fx.uint8)).random_().max()) < 256
    x = fx.nn.Buffer(fx.zeros(10001)).cauchy_(3, 2)
    assert abs(float(x.sort().values[5000]) - 3) < 0.2
    p = fx.tensor([[0.0, 1.0, 1.0]])
    np.testing.assert_array_equal(fx.nn.Buffer(fx.ones((1, 3))).bernoulli_(p).numpy(), p.numpy())


@pytest.mark.parametrize(
    "name, args, message",
    [
        ("normal_", (0, -1), "normal_ expects std >= 0.0, but found std -1"),
        ("uniform_", (2, 1), r"uniform_ expects to return a \[from, to\) range"),
        ("bernoulli_", (1.5,), r"bernoulli_ expects p to be in \[0, 1\], but got p=1.5"),
        ("exponential_", (0,), "exponential_ expects lambda > 0.0, but found lambda=0"),
        ("geometric_", (1,), r"geometric_ expects p to be in \(0, 1\), but got p=1"),
        ("cauchy_", (0, 0), "cauchy_ expects sigma > 0.0, but found sigma=0"),
        ("log_normal_", (0, 0), "log_normal_ expects std > 0.0, but found std=0"),
        ("random_", (3, 3), "random_ expects 'from' to be less than 'to'"),
    ],
)
def test_what_draws_refuse(name, args, message):
    with pytest.raises(ValueError, match=message):
        getattr(fx.nn.Buffer(fx.ones(2)), name)(*args)
    with pytest.raises(RuntimeError):
        getattr(torch.ones(2), name)(*args)


def test_draws_refuse_integers():
    with pytest.raises(
        DTypeError, match=r"normal_ draws floating numbers, and the tensor is int64"
    ):
        fx.nn.Buffer(fx.ones(2, dtype=fx.int64)).normal_()


# p.data -----------------------------------------------------------------------------------------


def script(nn, tensor, steps):
    """What scripts do with `p.data`, and what they see."""
    p = nn.Parameter(tensor(X))
    seen = []
    q = p.data
    p.data.mul_(2)
    seen.append(q.numpy().copy())
    q[0] = 7.0
    p.data[1, 1:] += 5
    p.data[0].fill_(3)
    p.data[:, 2].zero_()
    p.data -= 0.5
    p.data[1][0] = 11.0
    seen.append(p.detach().numpy().copy())
    backup = p.data  # the running average of weights that is put in and taken out again
    p.data = tensor(Y)
    seen += [backup.numpy().copy(), p.detach().numpy().copy()]
    p.data = backup
    p.data.add_(1)
    seen.append(p.detach().numpy().copy())
    assert p.requires_grad and not p.data.requires_grad
    assert type(p.data) is not type(p) and not isinstance(p.data, nn.Parameter)
    return [*seen, p.data.dtype == p.dtype, tuple(p.data.shape), p.data.sum().item(), len(p.data)]


def test_data_as_scripts_use_it():
    for a, b in zip(script(fx.nn, fx.tensor, 3), script(torch.nn, torch.tensor, 3)):
        np.testing.assert_array_equal(a, b)


def test_what_is_cut_of_data_can_be_written_to():
    def program(nn, tensor, no_grad):
        p = nn.Parameter(tensor(np.arange(24.0).reshape(4, 6)))
        for i, part in enumerate(p.data.chunk(4)):
            part.add_(i)
        for part in p.data.split(4, 1):
            part[0] = part.shape[1]
        p.data.split([1, 3])[1].mul_(2)
        p.data.narrow(1, 2, 3).neg_()
        p.data.select(-1, 0).fill_(5)
        p.data[1:][0, 1:3].zero_()
        nn.init.constant_(p.data[3:, 4:], 9)
        return p.detach().numpy()

    rows = [program(m.nn, m.tensor, m.no_grad) for m in (fx, torch)]
    np.testing.assert_array_equal(*rows)


def test_data_reaches_no_history():
    p = fx.nn.Parameter(fx.tensor(X))
    (p.data * p).sum().backward()
    close(p.grad, torch.tensor(X))
    with pytest.raises(InPlaceError, match=r"has no gradient of its own; write p.requires_grad_"):
        p.data.requires_grad = True
    x = p.data.requires_grad_()
    (x * 2).sum().backward()
    assert float(x.grad.sum()) == 12 and type(x) is fx.Tensor
    fx.nn.init.ones_(p.data)
    assert p.tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_handles_are_tensors(how):
    p = fx.nn.Parameter(fx.tensor(X))
    (p * 2).sum().backward()
    for handle in (p.data, p.grad):
        before = handle.numpy().copy()
        other = how(handle)
        assert type(other) is fx.Tensor
        handle.zero_()
        np.testing.assert_array_equal(other.numpy(), before)


def test_data_under_jit():
    p = fx.nn.Parameter(fx.tensor(X))
    t = torch.tensor(X)

    @fx.jit
    def step(x):
        p.data.mul_(2)
        p.data[0] = x
        q = p.data
        p.data -= 1
        p.data[1].clamp_(min=0)
        return q * 1, p.data

    for scale in (1.0, 2.0, 3.0):
        seen, data = step(fx.tensor(Y[0]) * scale)
        t.mul_(2)
        t[0] = torch.tensor(Y[0]) * scale
        t -= 1
        t[1].clamp_(min=0)
        close(p, t)
        close(seen, t)
        close(data, t)
    twice = fx.jit(lambda x: x * 2)
    for _ in range(3):
        close(twice(p.data), 2 * t)
    assert twice.cache_size() == 1

    @fx.jit
    def swapped(x):
        old = p.data
        p.data = x
        return old

    close(swapped(fx.tensor(Y)), t)
    close(p, torch.tensor(Y))


def test_draws_under_jit_are_those_of_eager_calls():
    def fill(p):
        p.data.normal_(0, 2).add_(1)
        p.data[0].uniform_()

    rows = []
    for wrap in (lambda f: f, fx.jit):
        p = fx.nn.Parameter(fx.tensor(X))
        fx.manual_seed(3)
        f = wrap(lambda p=p: fill(p))
        f()
        f()
        rows.append(p.detach().numpy())
    np.testing.assert_array_equal(*rows)


def test_data_under_vmap():
    def lane(x):
        p = fx.nn.Parameter(x)
        p.data.mul_(3)
        p.data[0] = 1.0
        (p * p).sum().backward()
        p.grad.clamp_(-2, 2)
        return p.data, p.grad, p.detach()

    data, grad, now = fx.vmap(lane)(fx.tensor(X))
    t = torch.tensor(X) * 3
    t[:, 0] = 1
    close(data, t)
    close(now, t)
    close(grad, (2 * t).clamp(-2, 2))


# p.grad -----------------------------------------------------------------------------------------


def gradients(nn, tensor):
    p = nn.Parameter(tensor(X))
    assert p.grad is None
    seen = []
    loss = lambda: (p * p * p).sum().backward()
    loss()
    seen.append(p.grad.numpy().copy())
    p.grad.data.clamp_(-1, 1)
    p.grad.mul_(2)
    p.grad += 1
    p.grad[0] = 5.0
    seen.append(p.grad.numpy().copy())
    p.grad.data.zero_()
    loss()
    seen.append(p.grad.numpy().copy())
    held = [q.grad for q in [p]]
    p.grad.div_(2)  # through another look at the same gradient
    seen.append(held[0].numpy().copy())
    p.grad = None
    loss()
    p.grad.add_(p.data, alpha=0.5)
    seen += [held[0].numpy().copy(), p.grad.numpy().copy()]
    p.grad.detach_()
    p.grad.zero_()
    p.grad = tensor(Y)
    p.grad.copy_(p.grad * 2)
    p.grad = p.grad.clone()
    seen += [p.grad.norm().item(), p.grad.detach().numpy(), (p.grad * p).detach().numpy()]
    return seen


def test_gradients_as_scripts_use_them():
    for a, b in zip(gradients(fx.nn, fx.tensor), gradients(torch.nn, torch.tensor)):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_gradients_under_jit():
    def step(p, x):
        (p * p * x).sum().backward()
        p.grad.data.clamp_(-2, 2)
        p.grad.mul_(0.5)
        seen = p.grad
        p.data -= p.grad
        p.grad.zero_()
        return seen

    rows = []
    for wrap in (lambda f: f, fx.jit):
        p = fx.nn.Parameter(fx.tensor(X))
        f = wrap(lambda x, p=p: step(p, x))
        rows.append([f(fx.tensor(Y) + i).numpy().copy() for i in range(3)])
        rows.append(p.detach().numpy())
        assert float(abs(p.grad).max()) == 0
    np.testing.assert_allclose(rows[0], rows[2], rtol=1e-6)
    np.testing.assert_allclose(rows[1], rows[3], rtol=1e-6)


def test_gradients_that_are_differentiated_again():
    p = fx.nn.Parameter(fx.tensor(X))
    (p**3).sum().backward(create_graph=True)
    first = p.grad
    assert first.requires_grad and not first.data.requires_grad
    (again,) = fx.autograd.grad(first.sum(), p)
    close(again, 6 * torch.tensor(X))
    first.data.zero_()
    assert float(abs(p.grad).max()) == 0


def test_what_gradients_refuse():
    p = fx.nn.Parameter(fx.tensor(X))
    p.sum().backward()
    with pytest.raises(BackwardError, match=r"p.grad: .* is a value inside vmap"):
        fx.vmap(lambda y: p.grad.mul_(y))(fx.tensor(Y))
    with pytest.raises(InPlaceError, match=r"gives float32\[3\], but it holds"):
        p.grad.copy_(fx.ones(3)).sub_(1)._renew("x", fx.ones(3))


def test_a_handle_that_is_held_outside_keeps_what_it_had():
    p = fx.nn.Parameter(fx.ones(3))
    held = p.data
    put = fx.jit(lambda x: setattr(p, "data", x))
    with pytest.warns(RuntimeWarning, match=r"it assigns to p.data while something outside holds"):
        put(fx.zeros(3))
    assert held.tolist() == [1, 1, 1] and p.tolist() == [0, 0, 0]
    held.add_(1)
    put(fx.ones(3) * 4)
    assert held.tolist() == [2, 2, 2] and p.tolist() == [4, 4, 4]


def test_handles_that_a_jitted_function_finds():
    p = fx.nn.Parameter(fx.ones(3))
    held = p.data
    read = fx.jit(lambda x: x + held)
    zeros = fx.zeros(3)
    assert read(zeros).tolist() == [1, 1, 1]
    p.data.mul_(5)
    assert read(zeros).tolist() == [5, 5, 5]
    p.data = zeros
    assert read(zeros).tolist() == [5, 5, 5] and p.tolist() == [0, 0, 0]
    double = fx.jit(lambda: held.mul_(2))
    double()
    assert held.tolist() == [10, 10, 10] and p.tolist() == [0, 0, 0]
