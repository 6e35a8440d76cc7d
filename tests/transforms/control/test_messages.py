"""Bad input: every message says what came, what was expected and the line to write."""

import pytest

import fx
from tests.transforms.oracle import says

X = fx.tensor([1.0, 2.0, 3.0])
S = fx.tensor(1.0)


def both(function, *args):
    """The function as it is, and under jit."""
    return [lambda: function(*args), lambda: fx.jit(function)(*args)]


# cond and switch ----------------------------------------------------------------------------------


def test_the_predicate_is_one_bool():
    with says(fx.errors.DTypeError, "cond", "bool, got float32[]", "pred != 0"):
        fx.cond(S, lambda: 1, lambda: 2)
    with says(fx.errors.ShapeError, "(3,)", ".any()", "fx.where", "fx.vmap"):
        fx.cond(X > 1, lambda: 1, lambda: 2)


def test_branches_are_functions():
    with says(TypeError, "true_fun must be a function, got 1.0", "lambda"):
        fx.cond(S > 0, 1.0, lambda: 2)
    with says(TypeError, "branches[1]", "float32[3]"):
        fx.switch(0, [fx.sin, X], X)


def test_branches_return_one_structure():
    def f(s):
        return fx.cond(s > 0, lambda: {"a": s}, lambda: {"b": s})

    with says(fx.errors.TreeError, "'a'", "'b'", "test_messages.py", "return the same"):
        fx.jit(f)(S)


def test_branches_return_the_same_specs():
    def shapes(s):
        return fx.cond(s > 0, lambda: {"a": s, "b": (s, s)}, lambda: {"a": s, "b": (s, X)})

    def dtypes(s):
        return fx.cond(s > 0, lambda: [s], lambda: [s.astype(fx.int32)])

    words = ("result['b'][1]", "float32[3]", "float32[]", "fx.broadcast_to", "test_messages.py")
    with says(fx.errors.ShapeError, *words):
        fx.jit(shapes)(S)
    with says(fx.errors.DTypeError, "result[0]", "int32[]", ".astype(fx.float32)"):
        fx.jit(dtypes)(S)
    with says(fx.errors.DTypeError, "result[0]"):
        fx.vmap(dtypes)(X)


def test_switch_takes_an_integer_and_a_branch():
    with says(ValueError, "no branches"):
        fx.switch(1, [])
    with says(fx.errors.DTypeError, "integer, got float32", ".astype(fx.int64)", "fx.cond"):
        fx.switch(1.5, [fx.sin], S)
    with says(fx.errors.ShapeError, "the index", "(2,)"):
        fx.switch(fx.tensor([0, 1]), [fx.sin], S)


# carries ------------------------------------------------------------------------------------------


def test_a_carry_keeps_its_shape():
    def f(x):
        return fx.scan(lambda c, a: ({"h": c["h"].sum()}, a), {"h": x}, x)

    for call in both(f, X):
        with says(
            fx.errors.ShapeError, "scan: carry['h']", "float32[3]", "goes out as float32[]",
            "fx.zeros(()", "test_messages.py",
        ):  # fmt: skip
            call()


def test_a_carry_keeps_its_dtype():
    def scan(x):
        return fx.scan(lambda c, a: ((c[0], c[1].astype(fx.float64)), a), (x, x), x)

    def fori(x):
        return fx.fori_loop(0, 3, lambda i, v: v.astype(fx.float16), x)

    def loop(x):
        return fx.while_loop(lambda v: v.sum() < 9, lambda v: v.astype(fx.float64), x)

    for call in both(scan, X):
        with says(fx.errors.DTypeError, "carry[1]", "float64[3]", ".astype(fx.float32) on what"):
            call()
    for call in both(fori, X):
        with says(fx.errors.DTypeError, "fori_loop: carry of", "float16[3]"):
            call()
    for call in both(loop, X):
        with says(fx.errors.DTypeError, "while_loop: carry of", "float64[3]"):
            call()


def test_a_carry_keeps_its_structure():
    for call in both(lambda x: fx.scan(lambda c, a: ((c, c), a), S, x), X):
        with says(fx.errors.TreeError, "structure", "return it as it came"):
            call()


def test_a_carry_holds_tensors():
    with says(TypeError, "a leaf of the carry", "'no'", "close over"):
        fx.scan(lambda c, a: (c, a), "no", X)
    with says(TypeError, "a result y", "'y'"):
        fx.scan(lambda c, a: (c, "y"), S, X)


# scan and map -------------------------------------------------------------------------------------


def test_a_step_returns_a_pair():
    for call in both(lambda x: fx.scan(lambda c, a: c, S, x), X):
        with says(TypeError, "pair (carry, y), got a tensor", "return carry, None"):
            call()


def test_y_has_one_structure():
    shapes = iter([1, 2, 3])
    with says(fx.errors.TreeError, "y of", "in another"):
        fx.scan(lambda c, a: (c, (a,) * next(shapes)), S, X)


def test_lengths_fit():
    step = lambda c, a: (c, a)
    with says(fx.errors.ShapeError, "length=4", "xs (3,)"):
        fx.scan(step, S, X, length=4)
    with says(fx.errors.ShapeError, "xs['a'] (3,)", "xs['b'] (2,)"):
        fx.scan(step, S, {"a": X, "b": X[:2]})
    with says(fx.errors.ShapeError, "xs is float32[]", "no rows"):
        fx.scan(step, S, S)
    with says(ValueError, "length=n"):
        fx.scan(step, S, None)
    with says(ValueError, "negative, got -1"):
        fx.scan(step, S, None, length=-1)
    with says(TypeError, "length must be an int, got 2.5"):
        fx.scan(step, S, None, length=2.5)
    with says(ValueError, "unroll", "got 0"):
        fx.scan(step, S, X, unroll=0)
    with says(ValueError, "batch_size", "got 0"):
        fx.map(fx.sin, X, batch_size=0)
    with says(TypeError, "map: f must be a function, got 3"):
        fx.map(3, X)


# loops --------------------------------------------------------------------------------------------


def test_a_condition_gives_one_bool():
    for call in both(lambda x: fx.while_loop(lambda v: v.sum(), lambda v: v, x), X):
        with says(fx.errors.DTypeError, "one bool, got float32[]", "x != 0", "test_messages.py"):
            call()
    with says(fx.errors.ShapeError, "bool[3]", ".any()"):
        fx.while_loop(lambda v: v > 1, lambda v: v, X)
    with says(fx.errors.DTypeError, "got 2 values"):
        fx.while_loop(lambda v: (True, True), lambda v: v, X)


def test_bounds_are_integers():
    with says(fx.errors.DTypeError, "upper", "float32[]", ".astype(fx.int64)"):
        fx.fori_loop(0, 2.5, lambda i, v: v, X)
    with says(fx.errors.ShapeError, "lower must be a scalar", "(2,)"):
        fx.fori_loop(fx.tensor([0, 1]), 2, lambda i, v: v, X)
    with says(TypeError, "body_fun"):
        fx.fori_loop(0, 2, X, X)


# associative_scan ---------------------------------------------------------------------------------


def test_fn_combines_elements():
    add = lambda a, b: a + b
    with says(fx.errors.ShapeError, "element by element", "(1,)"):
        fx.associative_scan(lambda a, b: a.sum(), X)
    with says(fx.errors.TreeError, "return what it takes"):
        fx.associative_scan(lambda a, b: (a, b), X)
    with says(fx.errors.AxisError, "axis 2", "(3,)"):
        fx.associative_scan(add, X, axis=2)
    with says(fx.errors.ShapeError, "differ in size along axis 0"):
        fx.associative_scan(lambda a, b: a, (X, X[:2]))
    with says(ValueError, "no tensors"):
        fx.associative_scan(add, ())


# what a body cannot do ----------------------------------------------------------------------------


def test_a_rebound_cell_keeps_its_spec():
    cell = fx.nn.Buffer(fx.zeros(2))
    cell.name = "count"

    def f(x):
        def step(c, a):
            cell.rebind(fx.zeros(3))
            return c, a

        return fx.scan(step, S, x)

    with says(fx.errors.StagingError, "count float32[2]", "float32[3]", "the body of scan"):
        fx.jit(f)(X)


def test_a_condition_rebinds_nothing():
    cell = fx.nn.Buffer(fx.tensor(0.0))
    cell.name = "count"

    def f(x):
        def going(v):
            cell.add_(1.0)
            return v < 3

        return fx.while_loop(going, lambda v: v + 1, x)

    with says(fx.errors.StagingError, "count", "the condition of while_loop", "in the body"):
        fx.jit(f)(S)


def test_python_does_not_branch_inside_a_body():
    with pytest.raises(fx.errors.StagingError, match=r"fx\.cond"):
        fx.jit(lambda x: fx.scan(lambda c, a: (c + 1 if a > 0 else c, a), S, x))(X)
