"""Views that were taken before a program first wrote: found at the first write, and from memory."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import fx
import fx.torch as face
from fx.errors import WriteError
from fx.writing.finding import steps
from fx.writing.noting import forget
from tests.torch import expressions
from tests.torch.test_functions import ARRAYS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("first_writes_look_at_what_the_file_made")

# each takes its views, and then writes for the first time
PROGRAMS = {
    "views": """
a = torch.zeros(3, 4); r = a[0]; c = a[:, 1]; t = a.T; f = a.view(-1); d = a.detach()[1]
e = a[2][3]; g = a.diagonal(); w = a.unfold(1, 2, 1); s = a.as_strided((2,), (5,))
p, q = a.chunk(2, 1); u, v, x = a.unbind(0)
a += torch.arange(12.).view(3, 4)
t[0, 1] = 50; d.fill_(7); e.fill_(-1); g.mul_(2)""",
    "of what is gone": "x = torch.arange(6.).reshape(2, 3); v = x.view(-1); r = x[1]; r += 1",
    "of a column": "x = torch.arange(6.).reshape(2, 3).t(); v = x[1]; w = x.T; x[0, 0] = 9; v += 1",
    "scalars": """
a, c = torch.tensor(2.), torch.tensor(2.); b = a.expand(3); d = a.view(1); a.fill_(5.)""",
    "numbers": """
a, b = torch.as_tensor(2.5), torch.as_tensor(2.5); c = a.detach(); d = torch.asarray(3.5)
e = d.view(1); b.fill_(7.); d += 1; f = torch.ones(2) * 2.5 + torch.as_tensor(2.5)""",
    "rows": "x = torch.zeros(3, 2)\nfor r in x: x += 1\ny = r",
    "copies": """
import copy
x = torch.arange(4.); a = x.flip(0); b = x.roll(0); c = x.repeat(1); d = x.clone()
e = copy.deepcopy(x); f = x.contiguous(); g = x.diag().diagonal().contiguous()
x[0] = 9; g *= 2""",
    "parts of numbers": """
z = torch.zeros(3, dtype=torch.complex64); r = z.real; i = z.imag[1:]
z[1] = 2 + 3j; r[0] = 7; i[1] = 5""",
    "a name again": "x = torch.ones(3); y = x.view(3); x.data = torch.zeros(3); y[0] = 4",
    "a leaf": """
w = torch.ones(2, 3); w.requires_grad_(); v = w.view(-1); z = (v * v).sum()
with torch.no_grad(): w[0, 0] = 5
(w.view(-1) * v).sum().backward(); g = w.grad""",
    "a leaf's data": """
w = torch.ones(3, requires_grad=True); d = w.data; e = w.detach()[1:]; d[0] = 5; e += 1""",
    "another leaf": """
x = torch.ones(4); d = x.detach().requires_grad_(); v = d[1:]; y = (v * 2).sum(); x[2] = 7.
((v * v).sum() + y).backward(); g = d.grad""",
    "two parts of what is gone": """
w = torch.ones(4, requires_grad=True); h = w * torch.arange(4.); a, b = h[:2], h[1:]; h = None
a[1] = 9.; b *= 2
(a.sum() + (b * b).sum()).backward(); g = w.grad""",
    "history": """
x = torch.ones(3); f = x.view(3, 1); w = torch.ones(3, requires_grad=True); x[0] = w[0] * 2
f.sum().backward(); g = w.grad""",
    "gradients": """
a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True); k = torch.ones(2)
(a + b).backward(k); g, h = a.grad, b.grad; a.grad.mul_(3)""",
    "results of jit": """
x = torch.ones(3)
for i in range(3): a, b, c, d = jit(lambda x: (x + 1, x + 1, x * 1, x.view(3, 1)))(x)
a += 5; c -= 1""",
    "compiled results": """
@jit
def f(x): return x + 1, x + 1, x * 1
x = torch.ones(3)
for i in range(4): a, b, c = f(x)
a += 5; c -= 1""",
    "a parameter": """
p = torch.nn.Parameter(torch.ones(2, 2)); d = p.detach(); r = p.detach()[0]; v = p.data.view(-1)
k = p.data[1].view(2, 1); r[1] = 5.; k[0] = 6; s = p.detach().clone()""",
}
_MADE = {  # in memory of its own, of another shape, turned, a part of more
    "its own": "torch.arange(6.)",
    "another shape": "torch.arange(6.).reshape(2, 3)",
    "turned": "torch.arange(6.).reshape(3, 2).t()",
    "a part": "torch.arange(8.)[2:].reshape(2, 3)",
}
_BEFORE = {  # what else holds the values of the parameter while views are looked for
    "nothing": "(p * p).sum().backward(); o.step()",
    "a graph": "l = (p * p * p).sum(); (p * p).sum().backward(); o.step()",
    "a graph that is retained": "l = (p * p).sum(); l.backward(retain_graph=True); o.step()",
    "a call": "f = jit(lambda *x: step()); f(b); f(p, b); f(p.data, a, b)",
}
PROGRAMS |= {
    f"a step of a parameter in {made}, beside {held}": f"""
p = torch.nn.Parameter({_MADE[made]}); o = torch.optim.SGD([p], lr=0.5)
a = {"p[0]" if made == "turned" else "p.view(-1)"}; b = a[:2]; c = p.data[..., 1:]; e = c[..., :1]
def step(): p.grad = torch.ones_like(p); o.step()
{_BEFORE[held]}
o.step()"""
    for made in _MADE
    for held in _BEFORE
}


def run(code, library):
    names = {"torch": library, "jit": fx.jit if library is face else lambda f: f}
    exec(code, names)
    return {n: x for n, x in names.items() if isinstance(x, torch.Tensor | fx.Tensor)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_view_taken_before_the_first_write_sees_it(name):
    expected = run(PROGRAMS[name], torch)
    forget()
    found = run(PROGRAMS[name], face)
    assert found.keys() == expected.keys()
    for n, x in expected.items():
        np.testing.assert_allclose(
            np.array(found[n].detach().tolist()), x.detach().numpy(), err_msg=n
        )
        assert found[n].requires_grad == x.requires_grad, n


def test_a_gradient_has_memory_of_its_own():
    forget()
    a, b = face.ones(2, requires_grad=True), face.ones(2, requires_grad=True)
    seed = face.ones(2)
    (a + b).backward(seed)
    view = a.grad[1:]
    view += 1
    assert [x.tolist() for x in (a.grad, b.grad, seed)] == [[1, 2], [1, 1], [1, 1]]


FIRST = {
    "x += v": lambda _, x: x.add_(1),
    "x[i] = v": lambda _, x: x.__setitem__(0, 1.0),
    "out=": lambda library, x: library.linspace(0, 1, 3, out=x),
    "a view of it": lambda _, x: x[1:].zero_(),
    "what is detached": lambda _, x: x.detach().add_(1),
}


@pytest.mark.parametrize("write", FIRST)
@pytest.mark.parametrize("taken", ["before it required grad", "under no_grad"])
def test_a_first_write_into_a_view_of_a_leaf_is_refused_as_in_torch(taken, write):
    def outcome(library):
        forget()
        a = library.zeros(4)
        early = a[:3]
        a.requires_grad_()
        with library.no_grad():
            late = a[:3]
        try:
            FIRST[write](library, early if taken == "before it required grad" else late)
        except RuntimeError:
            return "refused", None
        return "done", a.tolist()

    assert outcome(face) == outcome(torch)


def test_what_cannot_be_told_is_refused():
    forget()
    a, b = face.ones(2, requires_grad=True), face.ones(2, requires_grad=True)
    a.grad = face.ones(2)
    b.grad = a.grad.detach()
    view = a.grad[1:]  # of the one gradient or the other, which lie in one memory
    with pytest.raises(WriteError, match=r"x = x\.clone\(\)"):
        view += 1
    forget()
    x, w = face.ones(3), face.ones(3, requires_grad=True)
    cut = x.detach()[1:]
    x[0] = w[0]
    with pytest.raises(WriteError, match="Take it again"):
        cut * 2


def test_a_program_that_has_not_written_runs_the_methods_of_fx():
    """And its first write finds views that the collector does not look at, and freezes no more."""
    code = """
import gc
import fx
before = dict(vars(fx.Tensor))
import fx.torch as torch
from fx.writing.views import VIEWS
x = torch.ones(2, 2); x.T, x[0], x.view(4), x.detach()
changed = [n for n in VIEWS if n in before and vars(fx.Tensor)[n] is not before[n]]
parts = ["as_strided", "data", "detach", "diagonal", "imag", "ravel", "real", "unfold"]
assert sorted(changed) == parts, changed
assert fx.prims.shape.reshape.__class__.__call__ is fx.primitive.Primitive.__call__
row = x[0]
assert getattr(row, "_view", None) is None
gc.collect()
gc.freeze()
held, young = gc.get_freeze_count(), [[]]
x += 1
assert row.tolist() == [2, 2]
assert held and gc.get_freeze_count() <= held and any(y is young for y in gc.get_objects())
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# memory -----------------------------------------------------------------------------------------

METHODS = """
clone() detach() T mT view(-1) reshape(-1) squeeze() unsqueeze(0) expand(2,*V.shape) expand_as(V)
ravel() double() select(0,1) narrow(0,0,2) split(1) chunk(2) unbind() unfold(0,2,1)
as_strided((2,),(1,)) transpose(0,-1) movedim(0,-1) repeat(1,1,1) flip(0) roll(0,0) flatten()
tile(1) repeat_interleave(1) cumsum(0) fliplr() rot90(0) triu(-9) tril(9) clamp(-9e9,9e9) sort()[0]
masked_fill(V!=V,0) sum_to_size(V.shape) T.contiguous() T.reshape(-1) t() adjoint() nan_to_num()
round() floor() long() type_as(V) __getitem__(...) __getitem__(0) __getitem__((0,0))
__getitem__(slice(0,1)) __getitem__([0,1]) __deepcopy__({}) sum() max(0)[0] diagonal()
""".split()  # noqa: SIM905
LINES = [
    *(f"{v}.{m.replace('V', v)}" for v in "xvci" for m in METHODS),
    *(f"torch.{name}(x)" for name in expressions.UNARY.split()),
    *expressions.LINES.strip().split("\n"),
    "torch.nn.functional.pad(x, (0, 0))", "torch.nn.functional.interpolate(c, scale_factor=1.)",
    "torch.diag(s)", "torch.tensor(3.)", "torch.zeros(())", "torch.nn.Flatten()(c)",
    "torch.nn.LSTM(4, 2).double()(c)", "torch.nn.Identity()(x)", "torch.stack([x])",
    "torch.cat([x])",
]  # fmt: skip
# what shows the bytes of others in PyTorch, and is a copy here
COPIES = ("view_as_real", "view_as_complex")


def memory(line, library):
    """Which results of an expression lie in the memory of which of its tensors."""
    names = {name: library.tensor(array.copy()) for name, array in ARRAYS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outs = [tensors(eval(line, {"torch": library, **names})) for _ in range(2)]
    held = {**names, **{f"result {i}": x for i, x in enumerate(outs[0])}, "again": outs[1]}
    found = set()
    for i, x in enumerate(outs[0]):
        for name, other in held.items():
            others = other if isinstance(other, list) else [other]
            if name != f"result {i}" and any(np.shares_memory(array(x), array(y)) for y in others):
                found.add((i, name))
    return found


def tensors(x):
    if isinstance(x, dict | tuple | list):
        return [t for y in (x.values() if isinstance(x, dict) else x) for t in tensors(y)]
    return [x] if isinstance(x, torch.Tensor | fx.Tensor) else []


def array(x):
    return x.detach()._a if isinstance(x, fx.Tensor) else x.detach().resolve_conj().numpy()


@pytest.mark.parametrize("part", range(4))
def test_results_share_memory_where_those_of_torch_do(part):
    for line in LINES[part::4]:
        if any(name in line for name in COPIES):
            continue
        try:
            expected = memory(line, torch)
        except Exception:
            continue
        assert memory(line, face) == expected, line


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4)])
def test_the_steps_between_two_arrays(shape):
    rng = np.random.default_rng(len(shape))
    for _ in range(60):
        first = np.empty(shape).transpose(rng.permutation(len(shape)))
        found = first
        for _ in range(rng.integers(1, 4)):
            found = cut(rng, found)
        if found.size:
            path = steps(first, found)
            assert path is not None, (first.strides, found.shape, found.strides)


def cut(rng, a):
    kind = rng.integers(4)
    if kind == 0:
        return a.transpose(rng.permutation(a.ndim))
    if kind == 1 and a.ndim:
        return a[None]
    if kind == 2 and a.ndim and a.shape[0]:
        return a[rng.integers(a.shape[0]), ...]
    if a.ndim and a.shape[0]:
        start = rng.integers(a.shape[0])
        return a[start :: rng.integers(1, 3)]
    return a.reshape(1)
