"""Containers of modules and parameters: every method of torch's, what it prints and refuses."""

from collections import OrderedDict

import numpy as np
import pytest

import fx

torch = pytest.importorskip("torch")

LIBS = [(fx.nn, fx.ones, "fx"), (torch.nn, torch.ones, "torch")]


def both(program):
    """What a program does with each library, which must be the same."""
    ours, theirs = (program(nn, ones) for nn, ones, _ in LIBS)
    assert ours == theirs
    return ours


def said(function):
    """The message and the kind of the error of a call."""
    with pytest.raises(Exception) as caught:
        function()
    text = str(caught.value).replace("torch.nn.modules.container", "nn")
    return text.replace("fx.nn.base.containers", "nn"), type(caught.value).__name__


def test_sequential():
    def program(nn, ones):
        a = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        b = nn.Sequential(OrderedDict(x=nn.Tanh(), y=nn.GELU()))
        out = [repr(a + b), repr(a * 2), repr(2 * b), repr(a[:1]), repr(b[-1]), len(a + b)]
        tied = a * 3
        out += [len(list(tied.parameters())), len(tied.state_dict()), tied[0] is tied[2]]
        a += b
        a *= 2
        out += [repr(a), repr(a.pop(1)), repr(a.pop(slice(0, 2))), list(a.state_dict())]
        a.insert(0, nn.Sigmoid()).insert(-1, nn.SiLU()).extend([nn.ELU()]).append(nn.Identity())
        del a[1:3]
        a[-1] = nn.Softplus()
        out += [repr(a), [n for n in dir(a) if n.isdigit()], [type(m).__name__ for m in a]]
        out += [
            said(lambda: a + 1),
            said(lambda: a * 1.5),
            said(lambda: a * 0),
            said(lambda: a[99])[1],
        ]
        out += [said(lambda: a.insert(50, nn.ReLU())), said(lambda: nn.Sequential(3))[1]]
        return out

    both(program)


def test_module_list_and_dict():
    def program(nn, ones):
        many = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)] + [nn.ReLU()])
        out = [repr(many), repr(many[1:]), repr(many + [nn.Tanh()]), list(many.state_dict())]
        del many[0:2]
        many[1] = nn.GELU()
        many.insert(1, nn.ELU())
        out += [repr(many), repr(many.pop(0)), len(many), [n for n in dir(many) if n.isdigit()]]
        out += [said(lambda: many.extend(3)), said(lambda: many[7])[1], said(lambda: many(1))[1]]
        named = nn.ModuleDict([["a", nn.ReLU()]])
        named.update(OrderedDict(b=nn.Tanh()))
        named.update(nn.ModuleDict({"c": nn.GELU()}))
        out += [repr(named), said(lambda: named.update(3)), said(lambda: named.update([("a",)]))]
        out += [said(lambda: named.pop("z"))[1], list(reversed(list(named))), "a" in named]
        del named["a"]
        return [*out, repr(named)]

    both(program)


def test_parameter_list():
    def program(nn, ones):
        many = nn.ParameterList([ones(2), nn.Parameter(ones(2, 3)), 5])
        many.append(ones(1)).extend([nn.Parameter(ones(4), requires_grad=False)])
        many += [ones(1)]
        many[0] = ones(7)
        out = [repr(many).replace("torch.", "fx."), len(many), list(many.state_dict()), many[2]]
        out += [[type(x).__name__ for x in many], repr(many[1:3]).replace("torch.", "fx.")]
        out += [[p.requires_grad for p in many.parameters()], [n for n in dir(many) if n.isdigit()]]
        out += [said(lambda: many.extend(ones(2)))[1], said(lambda: many[9]), said(lambda: many(1))]
        out += [many[-1] is many[5], [n for n, _ in many.named_parameters()]]
        return out

    both(program)


def test_parameter_dict():
    def program(nn, ones):
        named = nn.ParameterDict({"b": ones(2), "a": nn.Parameter(ones(3))})
        named["note"] = "text"
        named.update([("c", ones(1))])
        named.update(OrderedDict(z=ones(1), y=ones(1)))
        out = [repr(named).replace("torch.", "fx."), list(named), list(reversed(named)), len(named)]
        out += [list(named.state_dict()), named.pop("note"), named.get("q", 3), "a" in named]
        out += [
            named.setdefault("a", 1) is named["a"],
            named.setdefault("w", ones(2)).shape == (2,),
        ]
        out += [named.popitem()[0], list(named.keys()), [tuple(v.shape) for v in named.values()]]
        more = named | {"n": ones(2)}
        out += [list(more), list(named), [k for k, _ in more.items()], list(named.copy())]
        more |= nn.ParameterDict({"m": ones(1)})
        out += [list(more), list({"p": 1} | nn.ParameterDict({"o": ones(1)}))]
        out += [list(named.fromkeys(["i", "j"], ones(1))), said(lambda: named[3])[1]]
        out += [
            said(lambda: named.update(3))[1],
            said(lambda: named.update([(1, 2, 3)])),
            said(lambda: named(1)),
        ]
        del named["a"]
        named.clear()
        return [*out, list(named), list(named.parameters())]

    both(program)


def test_parameter_containers_under_transforms():
    class Net(fx.nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = fx.nn.ParameterList([fx.ones(3) * 2, fx.ones(3) * 3])
            self.named = fx.nn.ParameterDict({"shift": fx.zeros(3)})

        def forward(self, x):
            for scale in self.scales:
                x = x * scale
            return x + self.named["shift"]

    net, x = Net(), fx.tensor([1.0, 2.0, 3.0])
    gradient = fx.grad(lambda m: m(x).sum())(net)
    np.testing.assert_array_equal(gradient.scales[0].detach().numpy(), [3, 6, 9])
    np.testing.assert_array_equal(gradient.named["shift"].detach().numpy(), [1, 1, 1])
    step = fx.jit(lambda x: net(x))
    np.testing.assert_array_equal(step(x).detach().numpy(), [6, 12, 18])
    net.scales.append(fx.ones(3) * 10)
    np.testing.assert_array_equal(step(x).detach().numpy(), [60, 120, 180])
    net.named["shift"] = fx.ones(3)
    np.testing.assert_array_equal(step(x).detach().numpy(), [61, 121, 181])
