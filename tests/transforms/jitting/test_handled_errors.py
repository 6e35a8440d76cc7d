"""Errors that a function handles: under jit it takes the way that it takes eagerly.

Each thing that may fail is put into each way of handling errors. Some of it fails eagerly, some
only where it cannot be compiled, some in some calls; what ends staging must not pass for an error
of the user, and an error that compiled code raises late must reach the handler around its cause.
"""

import contextlib
import warnings

import pytest

import fx

# what may fail ------------------------------------------------------------------------------------


class Risks:
    """A fresh set for each side of a comparison: some of them change what they use."""

    def __init__(self):
        self.cell = fx.nn.Parameter(fx.ones(2))
        self.group = fx.optim.SGD([fx.nn.Parameter(fx.ones(2))], lr=0.1).param_groups[0]
        self.lbfgs = fx.optim.LBFGS([fx.nn.Parameter(fx.ones(2))], max_iter=1)

    def rebind_to_another_shape(self, x, n):
        with fx.no_grad():
            self.cell.data = fx.ones(2 + int(self.cell.shape[0]))
        return self.cell.sum() + x

    def store_a_tensor_as_a_number(self, x, n):
        self.group["lr"] = x.sum()
        return x * 2

    def lbfgs_step(self, x, n):
        def closure():
            self.lbfgs.zero_grad()
            loss = (self.lbfgs.param_groups[0]["params"][0] ** 2).sum()
            loss.backward()
            return loss

        return x + self.lbfgs.step(closure)

    def save(self, x, n):
        import io

        fx.save(x, io.BytesIO())
        return x * 2

    def shapes(self, x, n):
        return x + fx.ones(3)

    def python(self, x, n):
        return x / [1, 2][7]

    def item(self, x, n):
        return x * x.item()

    def index(self, x, n):
        return x[x[0].astype(fx.int32)] + x

    def late(self, x, n):
        y = x[x[0].astype(fx.int32)]
        return x if y > 1 else y + x

    def whole_number(self, x, n):
        return x * int(n)

    def divide(self, x, n):
        return x * (7 // int(n))

    def value(self, x, n):
        return x * int(x[1].item())

    def refuse(self, x, n):
        if x.sum() > 2.5:
            raise LookupError("refused")
        return x + 5


RISKS = [name for name in vars(Risks) if name[0] != "_"]
CALLS = [
    ([0.0, 1.0], 2.0),
    ([1.0, 2.0], 0.0),
    ([5.0, 2.0], float("inf")),
    ([1.0, float("nan")], float("nan")),
    ([1.0, float("inf")], 1.0),
]
CALLS += CALLS


# ways of handling errors --------------------------------------------------------------------------


def exception(risk, x, n):
    try:
        y = risk(x, n)
    except Exception:
        return x - 100
    return y + 1


def bare(risk, x, n):
    try:
        y = risk(x, n)
    except:  # noqa: E722
        return x - 100
    return y + 1


def base_exception(risk, x, n):
    try:
        return risk(x, n)
    except BaseException:
        return None


def suppressed(risk, x, n):
    with contextlib.suppress(BaseException):
        return risk(x, n)
    return x - 100


def returned_from_finally(risk, x, n):
    out = x - 100
    try:
        out = risk(x, n)
    finally:
        return out  # noqa: B012


def again(risk, x, n):
    for i in range(3):
        try:
            return risk(x + i, n)
        except Exception:
            continue
    return x - 100


def turned_into_another(risk, x, n):
    try:
        return risk(x, n)
    except BaseException as error:
        raise KeyError("another") from error


def around_both(risk, x, n):
    """The outer handler must not get what belongs to the inner one."""
    try:
        try:
            y = risk(x, n)
        except Exception:
            y = x - 100
        if y.sum() > 0:
            return y + 1
    except Exception:
        return x - 1000
    return y


def otherwise(risk, x, n):
    try:
        y = risk(x, n)
    except (ValueError, IndexError) as error:
        return type(error).__name__, str(error)
    except Exception as error:
        return type(error).__name__
    else:
        y = y * 2
    return y


def nothing(risk, x, n):
    return risk(x, n)


HANDLERS = [
    exception, bare, base_exception, suppressed, returned_from_finally, again,
    turned_into_another, around_both, otherwise, nothing,
]  # fmt: skip


def outcome(function, x, n):
    try:
        out = function(fx.tensor(x), n)
    except Exception as error:
        return type(error)
    return [x.tolist() if isinstance(x, fx.Tensor) else x for x in fx.tree.leaves(out)]


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("handler", HANDLERS, ids=lambda f: f.__name__)
def test_errors_are_handled_as_eagerly(handler, name):
    want, got = Risks(), Risks()

    def eager(x, n):
        return handler(getattr(want, name), x, n)

    @fx.jit
    def jitted(x, n):
        return handler(getattr(got, name), x, n)

    for x, n in CALLS:
        expected = outcome(eager, x, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = outcome(jitted, x, n)
        if handler is nothing and name == "save":
            expected = fx.errors.StagingError  # nobody handles it: it says what to do
        assert repr(found) == repr(expected), (x, n)
    assert got.cell.tolist() == want.cell.tolist()


def test_what_handles_an_error_of_one_call_stays_compiled():
    @fx.jit
    def f(x):
        try:
            return x[x[0].astype(fx.int32)]
        except IndexError:
            return x.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [f(fx.tensor([i, 7.0])).item() for i in (0.0, 1.0, 3.0, 1.0, 0.0)]
    assert found == [0.0, 7.0, 10.0, 7.0, 0.0]
    assert f.cache_size() == 1
