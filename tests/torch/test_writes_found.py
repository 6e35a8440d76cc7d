"""Programs that write, found by the generator to differ from torch's, now alike."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import fx.torch as face
from fx.errors import WriteError
from fx.testing.fuzz import twins
from fx.testing.fuzz.outcomes import Invalid

PROGRAMS = {
    "what inference_mode does not record nothing records": """
        x = torch.ones(3, requires_grad=True)
        v = x * 2
        with torch.inference_mode():
            with torch.enable_grad():
                v[1] = x[0] * 3
                y = v * 1
            with torch.set_grad_enabled(True):
                z = x * 1
            with torch.inference_mode(False):
                w = x * 1
        v.sum().backward()
        """,
    "what is detached is no leaf once a leaf was copied into it": """
        x = torch.ones(2, requires_grad=True)
        y = x.detach()
        y[0] = 2.0
        z = torch.ones(2, requires_grad=True)
        y.copy_(z)
        (y * y).sum().backward()
        """,
    "items of a buffer reach its arrays": """
        m = torch.nn.BatchNorm1d(3)
        n, k = m.running_mean.numpy(), m.running_var.detach().numpy()
        m.running_mean[0] += 2
        n += 1
        v = m.running_var.data.unsqueeze(-1)
        v[[-1]] = 2.0
        m.running_var[:2] *= 3
        """,
    "repeat along axes of one element": """
        x = torch.tensor([1.0, 2.0, 3.0])
        y = x.repeat(2, 1, 1, 1)
        x[...] = 5.0
        """,
    "what is expanded is not contiguous": """
        x = torch.tensor(1.5)
        y = torch.ones(3)
        a, b = x.expand(2).contiguous(), y.expand(2, 3).contiguous()
        x.ravel()[0], y[1] = 4.0, 7.0
        """,
    "a view of all of a leaf is no leaf": """
        x = torch.ones(3, requires_grad=True)
        y, z = torch.squeeze(x), x.ravel()
        x.requires_grad_(False)
        v = y[None]
        """,
    "ravel gives another tensor": """
        x = torch.ones(2)
        v = x.ravel()
        x.unsqueeze_(0)
        v[0] = 3.0
        """,
    "a view of what requires grad no more": """
        x = torch.ones(3, requires_grad=True)
        y = torch.zeros(2)
        y[0] = 1.0
        v = x[2]
        x.requires_grad_(False)
        x[0] = 3.0
        (v * 2).backward()
        """,
    "a view that was made without recording": """
        x = torch.ones(3, requires_grad=True)
        h = x * 2
        with torch.no_grad():
            v = h[1:]
        with torch.no_grad():
            v.mul_(2)
        h.sum().backward()
        """,
    "views of a written leaf that requires grad no more": """
        x = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            x[0] = 2.0
        v = x[1:] * 1
        w = x[1:]
        x.requires_grad_(False)
        x[1] = 5.0
        """,
    "views of a parameter over steps": """
        p = torch.nn.Parameter(torch.ones(2, 2))
        o = torch.optim.SGD([p], lr=0.5)
        v, w, d, e = p[0], p.data.view(-1), p.data, p[1].data
        z = (v * v).sum()
        z.backward(retain_graph=True)
        o.step()
        (p.view(-1) * w).sum().backward()
        o.step()
        z.backward()
        """,
    "views of a parameter and its data": """
        p = torch.nn.Parameter(torch.ones(2, 2))
        v, d, e = p[0], p.data, p.detach()
        w = d.view(-1)
        d.mul_(3)
        d.fill_(5)
        w[0] = 7.0
        p.data.view(4)[1] = 8.0
        """,
    "a state dict that is loaded": """
        w, b = torch.ones(2, 2), torch.zeros(2)
        m = torch.nn.Linear(2, 2); m.load_state_dict({'weight': w, 'bias': b})
        v, w, d = m.weight[0], m.weight.view(-1), m.weight.data
        [x.mul_(3).add_(1).sum().item() for x in m.state_dict().values()]
        m.load_state_dict({k: x * 2 for k, x in m.state_dict().items()})
        y = m(torch.ones(1, 2))
        """,
    "initialisers of a parameter": """
        p = torch.nn.Parameter(torch.ones(2, 3))
        v, w = p[0], p.data.real.narrow(1, 0, 2)
        torch.nn.init.constant_(p, 0.25)
        w.fill_(2)
        p.data.hsplit(3)[2].fill_(3)
        y = p.flatten(0)
        """,
    "a detached parameter of another shape": """
        p = torch.nn.Parameter(torch.ones(2, 3))
        v = p.detach()
        v.transpose_(0, 1)
        v[0] = 2.0
        """,
    "what is cut of windows": """
        x = torch.tensor([1.0, 2.0, 3.0, 4.0])
        x.unfold(0, 2, 1).diagonal()[0:] = 0.0
        """,
    "windows of what NumPy writes": """
        x = torch.tensor([[False, True, False], [False, False, True]])
        n = x.numpy(force=True)
        x[1:2, 1:3] = False
        v = x.unfold(1, 1, 2)
        n ^= True
        """,
    "an array of windows": """
        x = torch.tensor([-0.5, -1.5, 0.0, 0.5])
        x.set_(torch.zeros_like(x) + 0.5)
        n = x.unfold(0, 3, 2).data.numpy()
        torch.nn.init.ones_(torch.detach(x))
        """,
    "an array of a diagonal": """
        x = torch.tensor([[1.875, 1.125, -1.625], [-1.625, 0.5, -1.75]])
        v = x.diagonal()
        x[0:1, :].copy_(x[0:1, :].clone() * 0.25)
        n = v.data.numpy()
        v[1] -= torch.full((), 0.25)
        """,
    "an array of steps": """
        x = torch.tensor([-1.125, 1.75, 0.0, 1.375])
        x += x.mean().item()
        n = torch.as_strided(x, (2,), (1,)).cpu().numpy()
        x[-3][...] = 2.0
        """,
    "what is expanded of what NumPy writes": """
        x = torch.tensor([False, False])
        x[-2][...] = True
        n = np.asarray(x[-1])
        v = x[1].expand(2)
        n[...] = ~n
        """,
    "all of what was detached of a parameter": """
        p = torch.nn.Parameter(torch.tensor(1.5))
        q = torch.nn.Parameter(torch.ones(3))
        p.detach().data.squeeze()[...] = 3.0
        q.data.squeeze().squeeze().mul_(3.0)
        """,
    "an array of what is detached for it": """
        x = torch.tensor([[[0.75, 0.375], [0.5, 1.125]], [[-0.5, 0.75], [2.0, 0.75]]])
        r = torch.detach(x).add_(x + 1)
        v = x.unfold(0, 2, 3)
        n = r.unsqueeze(-1).numpy(force=True)
        n[-2] *= -0.75
        """,
    "an array of a part, detached for it": """
        x = torch.tensor([[-1.375, -0.375, 0.375], [-2.0, -1.25, 0.5]])
        torch.relu_(x.flatten(-2).data)
        n = x.as_strided((1,), (2,)).numpy(force=True)
        n -= 3
        """,
    "conjugates of what NumPy writes": """
        z = torch.tensor([1 + 2j, 3j])
        n = z.numpy()
        v = z.conj()
        n[0] = 5j
        m = v.resolve_conj().numpy()
        m[1] = 7.0
        l = z.conj()[1:].numpy()
        """,
    "conjugates of conjugates share memory with NumPy": """
        x = torch.tensor([-1j, -1.5 + 1.75j])
        v = x.conj().conj()
        n = v[1].numpy()
        v.imag.sign_()
        v.conj().real.neg_()
        v.real.contiguous().add_(1)
        x[1] += 1
        """,
    "what is expanded of a tensor that is gone": """
        x = torch.tensor([1., 2., 3.])
        r, w, t = (x * 2).expand(2, 3), (x * 2).unfold(0, 2, 1), (x * 1).sum().expand(2)
        r[0] += x
        w[1, 0] = 7
        t[:1] = 5
        """,
    "a view of what was a leaf when it was taken": """
        x = torch.tensor([1., 2., 3.], requires_grad=True)
        v = x.squeeze()
        x.requires_grad_(False)
        v[...] /= 2.0
        """,
    "what requires grad is not resized": """
        x = torch.ones(3, requires_grad=True)
        x.resize_(3)
        """,
    "what is resized goes on in the memory that it lies in": """
        x = torch.arange(6.).reshape(2, 3)
        v, w, t = x[0, 1:], x.view(-1)[3:], x.t()
        v.resize_(4)
        v += 10
        t.resize_(2, 2)
        t[1] = 5
        x.resize_(3)
        x.mul_(2)
        x.resize_(2, 3)
        w.add_(1)
        y = torch.arange(4.)
        r, s = y[1], y[:1]
        r.resize_(2)
        r += 1
        s.resize_(4)
        s *= 2
        s.requires_grad_()
        flags = y.requires_grad, s.requires_grad
        z = torch.tensor([1.5 + 1j, 2j, 3.0, 4 - 1j]).reshape(2, 2)
        c = z.H
        c.resize_(3)
        c[1] = 5j
        """,
    "memory that grows, for all that lies in it": """
        if True:  # torch's grows no more once NumPy has looked at it
            x = torch.arange(6.).reshape(2, 3).t()
            v, w = x[1:], x[0]
            w.resize_(6)[3:].fill_(0.5)
            v[0, 1] = 9
            w.mul_(2)
            x.resize_(8)[6:].zero_()
            x.add_(1)
            a, b = torch.zeros(4).chunk(2)
            b.resize_(5).fill_(2)
            b[0] = 7
            a.resize_(3)
            a += 1
            y = torch.empty(0)
            z = y.detach()
            torch.cat([x, x], out=y)
            y -= 1
        """,
    "what is cut of a tensor without a name is resized in its memory": """
        x = torch.arange(6.)[1:3]
        x.resize_(4)
        x.mul_(2)
        y = torch.arange(8.)[::2]
        y.resize_(2, 2)
        y[1] = 7
        """,
    "a gradient waits for what is resized": """
        if True:
            x = torch.tensor([1., 2., 3.], requires_grad=True)
            x.sum().backward()
            x.requires_grad_(False)
            x.resize_(5)[3:] = 1
            x.resize_(3)
            x.requires_grad_()
        g = x.grad * 2
        """,
    "results of another shape": """
        x = torch.zeros(2, 4)
        v, w = x[0, 1:3], x[:, 1]
        torch.add(torch.ones(4), 1, out=v)
        torch.linspace(0, 1, 8, out=x)
        torch.arange(8., out=x)
        mask = torch.tensor([[True, False], [False, True]])
        torch.where(mask, x[:, :2].clone(), torch.tensor(5.), out=w)
        v += 1
        """,
    "what is expanded is not what came first": """
        x = torch.tensor([0.75, -0.75, 0.5, 0.25]).reshape(2, 2)
        v, w = x.expand(2, 2, 2), x.unfold(1, 2, 1)
        for row in x:
            row.neg_()
        """,
    "a view of a parameter that requires grad no more": """
        w = torch.nn.Parameter(torch.ones(2, 3))
        v = w.mT
        w.data.add_(-0.25)
        u = w[0]
        w.requires_grad_(False)
        w.data.add_(-0.25)
        (u * 2).sum().backward()
        w.requires_grad_()
        (w[1] * 3).sum().backward()
        """,
    "conjugates are a view": """
        z = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
        v, w, r = z.conj().T, z.mH[0], z.conj().imag
        r += 3
        v[0] = 2j
        w.mul_(1j)
        z[1, 1] = 1j
        torch.conj(z).expand(3, 2, 2)[0, 0] = 4j
        u = z[0].conj()[:1].conj()
        u -= 2j
        c = z.conj().resolve_conj()
        c[0] = 9.0
        """,
    "a view of conjugates whose first is gone": """
        z = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
        v = z[0].conj()[1:]
        z += 1j
        v -= 2j
        """,
    "conjugates of a buffer": """
        m = torch.nn.Module()
        m.register_buffer('kept', torch.tensor([[1 + 2j, 2j], [3.0, 4.0]]))
        v, w = m.kept.T.conj().T[0], m.kept.mH
        v[0] = 5j
        m.kept[0, 1] = 3 + 3j
        """,
    "elements that are moved out of an expanded tensor": """
        x = torch.ones(3)
        v = x.expand(2, 3).reshape(-1)[1:]
        v[0] = 2.0
        x[1] = 5.0
        """,
    "all of a detached tensor": """
        y, w = torch.ones(3), torch.tensor(0.5, requires_grad=True)
        torch.detach(y).view(3)[-2] = w
        x, w = torch.ones(3), torch.ones(3, requires_grad=True)
        x.detach().squeeze().mul_(w)
        """,
    "part of a detached tensor that has a name gets a history under jit": """
        x, w = torch.ones(3, 3), torch.ones((), requires_grad=True)
        @jit
        def f(p):
            v = x.data
            v.T[0] = p * p
            return v * 1
        y = f(w)
        z = f(w)
        """,
    "part of the data of a leaf gets the history of the leaf under jit": """
        x = torch.ones(3, 3, requires_grad=True)
        @jit
        def f(p):
            v = x.data
            v[0].copy_(x[0] + p)
            return v * 1
        y = f(torch.ones(3))
        z = f(torch.ones(3))
        """,
    "what is resolved of conjugates has elements of its own": """
        x = torch.tensor([[1 - 0.5j, 2 + 1j]])
        y, z = x.adjoint().resolve_conj(), x.conj()[0].resolve_conj()
        u = x.conj().conj().T.resolve_conj()
        torch.view_as_real(y).clamp_min_(0.1)
        z[0], u[1] = 3, 4j
        """,
    "a view of what requires grad no more has the history of what is written then": """
        x, w = torch.zeros(4, requires_grad=True), torch.ones(2, requires_grad=True)
        v = x[:2]
        u = v[0]
        x.requires_grad_(False)
        x[1:] = 5.0
        x[:2] = w * 2
        (v.sum() * u).backward()
        v.mul_(3)
        x.sum().backward()
        """,
    "a detached view of what requires grad no more keeps to itself": """
        x, w = torch.zeros(4, requires_grad=True), torch.ones(2, requires_grad=True)
        x[:2].sum().backward()
        v = x[:2]
        x.requires_grad_(False)
        d = v.detach()
        x[:2] = w * 3
        d.mul_(2)
        (v * d.sum()).sum().backward()
        """,
    "conjugates see what NumPy writes into a part": """
        x = torch.tensor([0.75 - 2.0j, 0.5 - 0.75j])
        v = torch.conj(x)
        a = torch.view_as_real(x.resolve_conj()).numpy()
        a[-1, 0:1] = -1.5
        b = x[1:].numpy()
        b[0] = 3j
        """,
    "what is given another shape by out= keeps its memory as far as that goes": """
        x = torch.arange(3.0)
        v = x[1:]
        torch.gather(x.unsqueeze_(0) * 1, 1, torch.tensor([[0, 2]]), out=x)
        x += 1
        v *= 2
        y = torch.arange(6.0).view(2, 3)
        u = y.T
        torch.sum(y * 1, 0, out=y)
        y[1] = 7
        """,
    "shapes that change again and again": """
        w = torch.ones(2, 1, 3, requires_grad=True)
        x = w * 2
        v = x[0]
        x.squeeze_().squeeze_().unsqueeze_(0).squeeze_()
        x.t_().t_().t_()
        x[0] *= 3
        x.unsqueeze_(1).transpose_(0, 2).transpose_(1, 2)
        y, z = torch.zeros(2, 3), torch.ones(6)
        y.set_(z.view(2, 3))
        y[0] = 4
        (x * v.sum()).sum().backward()
        """,
}


REFUSED = {
    "what is cut of a detached tensor that is gone": """
        x, w = torch.zeros(3, 4), torch.ones(3, requires_grad=True)
        x.detach().T.add_(w)
        """,
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("what", PROGRAMS)
def test_programs(what, first):
    for every in (1, 100):
        twins.agree(PROGRAMS[what], every, first)


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what):
    with pytest.raises(Invalid, match="cannot be told"):
        twins.agree(REFUSED[what], first=True)
    twins.agree(REFUSED[what], first=False)


def test_a_buffer_says_that_it_drops_a_history_also_of_a_view():
    text = """
        w = torch.ones(2, requires_grad=True)
        m = torch.nn.Module()
        m.register_buffer('kept', torch.zeros(2))
        kept = m.kept
        kept[0][...] = w.max()
        """
    with pytest.raises(Invalid, match="keeps the values and not their history"):
        twins.agree(text)


def test_a_value_with_a_history_is_refused_where_elements_are_there_twice():
    text = """
        x = torch.ones(3, requires_grad=True)
        d = x.expand(2, 3).detach()
        d[-2, None] = x.mean() * 3
        """
    for first in (True, False):
        with pytest.raises(Invalid, match="no gradient can flow"):
            twins.agree(text, first=first)


def test_what_was_detached_of_a_parameter_keeps_its_value_over_steps():
    p = face.nn.Parameter(face.ones(3))
    e, s = p.detach(), p.data.view(-1).detach()
    v = p[1:]
    optimizer = face.optim.SGD([p], lr=0.5)
    for _ in range(2):
        p.sum().backward()
        optimizer.step()
    assert e.tolist() == s.tolist() == [1, 1, 1]
    assert v.tolist() == [-0.5, -0.5] and p.tolist() == [-0.5] * 3
    e[0] = 9.0  # what is written into one is seen by all
    assert p.tolist() == [9, -0.5, -0.5] and s.tolist() == [9, -0.5, -0.5]


CUT_INSIDE = (
    "v = t.unfold(0, 2, 2); torch.add(v.clone(), p, out=v)",
    "t[k].fill_(2.5)",
    "t.narrow(0, k, 2).mul_(p)",
    "v = t.view(3, 2).T[k]; v += p",
    "v = t.view(3, 2).T[k].detach(); v.zero_()",
    "v = t.as_strided((2,), (2,), k); v += p",
    "v = t.as_strided((3, 3), (1, 1))[k]; v += p",
    "v = t.unfold(0, 3, 1)[k, k]; v.fill_(3)",
    "v = t.expand(2, 6)[:, k][0]; v.fill_(3)",
)


@pytest.mark.parametrize("line", CUT_INSIDE)
@pytest.mark.parametrize("made", ["torch.tensor([1., 2, 3, 4, 5, 6])", "torch.zeros(6) + p"])
def test_views_whose_places_are_staged(line, made):
    """Of a tensor made inside: at positions, or windows of it, before and after the first write."""
    for lead in ("", "q = torch.zeros(2)\nq.add_(1)\n"):
        text = f"""{lead}@jit
def f(p, k):
    t = {made}
    {line}
    return t * 1
y = f(torch.ones(1), 0)
z = f(torch.ones(1) * 2, 1)
"""
        twins.agree(text, first=True)


@pytest.mark.parametrize("other", ["True", "{t}.tensor(False)", "{t}.tensor([True, False])"])
def test_a_truth_value_is_not_subtracted(other):
    said = []
    for module in (pytest.importorskip("torch"), face):
        x = module.tensor([3, 4])
        with pytest.raises((RuntimeError, TypeError)) as raised:
            exec(f"x -= {other.replace('{t}', 't')}", {"t": module, "x": x})
        said.append(str(raised.value).strip())
        assert x.tolist() == [3, 4]
    assert said[0] == said[1]


MADE = (
    "torch.zeros(w.shape, out=w)", "torch.ones(2, out=w)", "torch.rand(2, out=w).zero_()",
    "torch.full((2,), 3., out=w)", "torch.arange(2., out=w)", "torch.linspace(0, 1, 2, out=w)",
    "torch.logspace(0, 1, 2, out=w)", "torch.randint(0, 3, (2,), out=w).zero_()",
    "torch.randperm(2, out=w).zero_()", "torch.normal(0., 1., (2,), out=w).zero_()",
    "torch.normal(torch.zeros(2), 1., out=w).zero_()", "torch.empty(2, out=w).zero_()",
    "torch.randn(2, out=w).zero_()", "torch.mul(w, 2, out=w)",
)  # fmt: skip


@pytest.mark.parametrize("line", MADE)
def test_what_is_made_into_a_leaf_takes_its_flag(line):
    """It requires grad no more; what is computed into it leaves it the leaf that it is."""
    for made in ("torch.ones(2)", "torch.nn.Parameter(torch.ones(2))", "m.weight", "w * 2", "w[:]"):
        text = f"""
            m = torch.nn.LayerNorm(2)
            w = torch.ones(2, requires_grad=True)
            w = {made}
            with torch.no_grad():
                {line}
            """
        twins.agree(text)


def test_a_shape_that_is_changed_again_takes_no_longer_each_time():
    x = face.ones(3, 1, 4)
    for _ in range(50):
        x.squeeze_().t_()
    record = x._view
    assert len(record.path) <= 2 and len(record.family.members) < 40


@pytest.mark.parametrize("line", ["y.copy_(h)", "y[:] = h", "y[1] = 5.; y.copy_(h)"])
def test_a_detached_tensor_gets_the_history_of_its_own_elements(line):
    twins.agree(f"""
        x = torch.tensor([1., 2., 3.], requires_grad=True)
        h = x * 2
        y = h.detach()
        {line}
        (y * y).sum().backward()
        """)


UNFOLLOWED = {
    "x.numpy() and x.resize_(8)": "not resizable, for NumPy shares it",
    "x.view(2, 3).t().as_strided((2,), (1,))": "counts through the memory",
    "x[2:].as_strided((2,), (1,), 0)": "counts through the memory",
    "torch.view_as_real(z).resize_(2)": "where in memory",
    "p.detach().resize_(8)": "of a parameter",
    "cut.resize_(8)": "what lies behind it",
}


@pytest.mark.parametrize("line", UNFOLLOWED)
def test_other_elements_of_a_memory_that_cannot_be_told_are_refused(line):
    names = {
        "torch": face,
        "x": face.arange(6.0),
        "cut": (face.ones(6) * 2).narrow(0, 1, 2),
        "z": face.ones(2) * 1j,
    }
    names["p"] = face.nn.Parameter(face.ones(2))
    names["cut"] += 1
    with pytest.raises(WriteError, match=UNFOLLOWED[line]):
        if " and " in line:
            names["n"] = eval(line.split(" and ")[0], names)
        eval(line.split(" and ")[-1], names)


@pytest.mark.parametrize("taken", ["x0.detach()", "torch.detach(x0)", "x0.data"])
@pytest.mark.parametrize("calls", [1, 3])
def test_what_a_compiled_function_detached_is_known_at_the_first_write(taken, calls):
    text = f"""
        x0 = torch.arange(6.).view(3, 2)
        x2 = torch.ones(2, requires_grad=True)
        @jit
        def f(k):
            return {taken}, x2 * 3
        for _ in range({calls}):
            y, z = f(1)
        y[0] = z.sum()
        """
    try:
        twins.agree(text, first=True)
    except Invalid as refused:  # another view of this memory is there, of which it is not told
        assert "fx refuses: a value that requires grad is written into a" in str(refused)


@pytest.mark.parametrize("view", ["torch.conj(x.mH)", "torch.conj(x.mT)", "x.mH", "x.conj().T"])
def test_what_conj_gives_of_numpys_memory_is_followed_at_the_first_write(view):
    twins.agree(
        f"""
        x = torch.tensor([-1.75+1.25j, 0.5-1.0j, -1.25+0.0j, 2.0+0.25j]).reshape(2, 2)
        n = x.numpy()
        {view}.sub_(-2j)
        n[0:1] *= 3
        y = {view} * 1
        """,
        first=True,
    )


@pytest.mark.parametrize("part", ["", ".real", ".imag"])
@pytest.mark.parametrize("index", ["[0:1]", "[0]", "[1:2, 1:]"])
@pytest.mark.parametrize("first", [True, False])
def test_a_history_written_into_one_of_windows_that_overlap_leaves_the_others(part, index, first):
    twins.agree(
        f"""
        w = torch.ones(1, requires_grad=True)
        x = torch.tensor([0.25j, -0.5+0.0j, -0.5+1.75j, 1.75+0.25j])
        x.unfold(0, 2, 1){part}{index} = -w
        (x.real * 2 + x.imag * 3).sum().backward()
        """,
        first=first,
    )


@pytest.mark.parametrize("made", ["x.view(-1)", "x[:]", "x.reshape(-1)", "x.view(2, 2)", "x[1:3]"])
@pytest.mark.parametrize("source", ["d", "d.view(-1)", "x0.detach()", "x0.data"])
@pytest.mark.parametrize("gone", ["", "x0 = None", "d = None"])
@pytest.mark.parametrize("base", ["torch.ones(4, requires_grad=True)", "torch.ones(4)", "w * 2"])
def test_what_is_cut_of_a_detached_tensor_before_the_first_write(made, source, gone, base):
    text = f"""
        w = torch.tensor([0.5, 1.5, -1.0, 2.0], requires_grad=True)
        x0 = {base}
        d = x0.detach()
        x = {source}
        y = {made}
        {gone or "pass"}
        x.mul_(w.sum())
        """
    try:
        twins.agree(text, first=True)
    except Invalid as refused:
        assert "fx refuses" in str(refused)


CROSSING = (
    "x.unfold(0, 2, 1)", "x.unfold(0, 2, 1).T", "x.as_strided((3, 2), (1, 1))",
    "x[None].unfold(1, 3, 2)[0]", "x.view(1, 5).unfold(1, 2, 1).permute(2, 1, 0)",
)  # fmt: skip
APART = ("x.unfold(0, 2, 2)", "x.as_strided((2, 2), (2, 1))", "x.unfold(0, 2, 1)[0:1]")
COMPUTED = ("v *= 2", "v.arctan_()", "v.add_(1)", "v.masked_fill_(v > 1, 0)", "v.clamp_(max=1)")


@pytest.mark.parametrize("made", CROSSING)
@pytest.mark.parametrize("line", COMPUTED)
@pytest.mark.parametrize("param", [False, True])
def test_nothing_is_computed_in_place_of_elements_that_are_there_twice(made, line, param):
    x = face.tensor([-1.5, 1.5, 0.875, 2.0, 3.0])
    x = face.nn.Parameter(x) if param else x
    before, space = x.tolist(), {"torch": face, "x": x}
    with face.no_grad(), pytest.raises(WriteError, match="single memory location"):
        exec(f"v = {made}\n{line}", space)
    assert x.tolist() == before


@pytest.mark.parametrize("made", APART)
@pytest.mark.parametrize("line", COMPUTED)
def test_what_is_there_once_is_computed_in_place(made, line):
    twins.agree(f"x = torch.tensor([-1.5, 1.5, 0.875, 2.0, 3.0])\nv = {made}\n{line}")


@pytest.mark.parametrize("made", CROSSING)
@pytest.mark.parametrize("line", ["v.fill_(3)", "v.zero_()", "v[...] = 2"])
def test_what_puts_one_value_into_elements_that_are_there_twice(made, line):
    twins.agree(f"x = torch.tensor([-1.5, 1.5, 0.875, 2.0, 3.0])\nv = {made}\n{line}")
