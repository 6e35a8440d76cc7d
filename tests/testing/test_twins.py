"""One text under torch and under fx.torch: equal ones pass, each kind of difference is said."""

import pytest

pytest.importorskip("torch")

from fx.testing.fuzz import twins
from fx.testing.fuzz.outcomes import Found, Invalid

AGREE = {
    "values, flags and gradients": """
        x = torch.tensor([0.5, 2.0], requires_grad=True)
        y = [x * x, {'k': x[:1]}]
        (y[0].sum() + y[1]['k'].sum()).backward()
        """,
    "an attribute, a function, a branch": """
        class B: pass
        b = B()
        b.w = torch.ones(2, 3)
        @jit
        def f(v):
            return v.sum(0)
        if b.w.sum() > 1:
            z = f(b.w)
        else:
            z = None
        """,
    "what both refuse": """
        x = torch.ones(2)
        y = x.reshape(3)
        z = x + 1
        """,
    "random numbers of Python's and of NumPy's": """
        x = torch.ones(3) * random.random() + float(np.random.rand())
        """,
    "NaN and infinity": """
        x = torch.tensor([0.0, -1.0]).log()
        """,
}
MINE = "torch.__name__ == 'torch'"
DIFFER = {
    "a value": ("x = torch.ones(2) * (1 if MINE else 1 + 1e-6)", "x is .1.0"),
    "an integer": ("x = torch.tensor([1, 2 if MINE else 3])", r"x is \[1, 3\], expected \[1, 2\]"),
    "a number": ("x = 1 if MINE else 2", "x is 2, expected 1"),
    "a shape": ("x = torch.ones(2 if MINE else 3)", r"x is float64\(3,\), expected float64\(2,\)"),
    "a dtype": ("x = torch.ones(2, dtype=torch.float64 if MINE else torch.float32)", "float32"),
    "a flag": ("x = torch.ones(2, requires_grad=MINE)", "x.requires_grad is False"),
    "a gradient": (
        "x = torch.ones(2, requires_grad=True)\n(x.sum() * (1 if MINE else 2)).backward()",
        r"after line 2, .*: x.grad is \[2.0, 2.0\], expected \[1.0, 1.0\]",
    ),
    "no gradient": (
        "x = torch.ones(2, requires_grad=True)\nif MINE:\n    x.sum().backward()",
        "x.grad is None, expected",
    ),
    "inside of others": (
        "x = [{'k': (torch.ones(2) * (1 if MINE else 2),)}]",
        r"x\[0\]\['k'\]\[0\]",
    ),
    "a length": ("x = [1] if MINE else []", "x has 0 items, expected 1"),
    "what torch refuses": ("if MINE:\n    torch.ones(2).reshape(3)", "fx raises nothing"),
    "an error that says nothing": ("if not MINE:\n    raise RuntimeError()", "fx raises Runtime"),
    "an error of Python's": ("if not MINE:\n    None + 1", "fx raises TypeError"),
}


@pytest.mark.parametrize("what", AGREE)
def test_programs_that_agree(what):
    twins.agree(AGREE[what])


@pytest.mark.parametrize("what", DIFFER)
def test_programs_that_differ(what):
    text, said = DIFFER[what]
    with pytest.raises(Found, match=said):
        twins.agree(text.replace("MINE", MINE))


def test_a_difference_is_found_at_the_end_when_it_is_looked_for_there():
    text = "x = torch.ones(2) * (1 if MINE else 2)\ny = 1\nz = 2".replace("MINE", MINE)
    with pytest.raises(Found, match="after line 3"):
        twins.agree(text, every=100)


def test_what_fx_refuses_is_no_finding_and_is_counted():
    before = twins.refusals.total()
    text = "x = 1\nif not MINE:\n    raise TypeError('write y')\ny = 2".replace("MINE", MINE)
    with pytest.raises(Invalid, match=r"line 2, .*fx refuses: write y"):
        twins.agree(text)
    assert twins.refusals.total() == before + 1


def test_gradients_of_torch_are_those_of_the_values_that_were_used():
    """Where torch would say that a value was modified, and where it would not notice."""
    import torch

    text = """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = y * y
        if MINE:
            y.data.mul_(7)
            y.add_(1)
        y = None
        z.sum().backward()
        """
    twins.agree(text.replace("MINE", MINE), every=100)
    assert torch.get_default_dtype() == torch.float32


def test_rows_of_torch_may_be_written_into():
    text = """
        x = torch.ones(2, 3, requires_grad=True)
        y = x * 2
        if MINE:
            y.unbind(0)[0].mul_(3)
            y.chunk(2)[0].mul_(3)
            [row.add_(1) for row in y]
        else:
            y = torch.stack([x[0] * 18 + 1, x[1] * 2 + 1])
        y.sum().backward()
        """
    twins.agree(text.replace("MINE", MINE), every=100)


def test_where_a_last_digit_decides_nothing_is_found():
    text = """
        x = torch.tensor([0.3, 0.7])
        for i in range(60):
            x = 4 * x * (1 - x)
        x = x * (1 if MINE else 1.5)
        """
    with pytest.raises(Invalid, match="rounding decides"):
        twins.agree(text.replace("MINE", MINE))


@pytest.mark.parametrize("off, found", [(1e-6, False), (1e-3, True)])
def test_digits_of_float32_are_compared_where_it_is_the_default(off, found):
    text = f"x = torch.ones(2) * (1 if {MINE} else {1 + off})"
    if not found:
        twins.agree(text, single=True)
    with pytest.raises(Found):
        twins.agree(text, single=found)
