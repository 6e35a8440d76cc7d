"""The quick ways to views give and note what the common way does."""

from __future__ import annotations

import numpy as np
import pytest

import fx.torch as torch
from fx.writing import noting, viewing
from fx.writing.records import View

CALLS = {
    "an int": lambda x: x[1],
    "an int from the end": lambda x: x[-1],
    "a slice": lambda x: x[1:],
    "a slice of tensors": lambda x: x[torch.tensor(1) :],
    "a tuple": lambda x: x[:, 1],
    "an element": lambda x: x[1, 2],
    "None": lambda x: x[None],
    "an ellipsis": lambda x: x[..., 0],
    "backwards": lambda x: _first(x.flip(0)),
    "detach": lambda x: x.detach(),
    "view": lambda x: x.view(-1),
    "view of its shape": lambda x: x.view(3, 4),
    "view of a tuple": lambda x: x.view((4, 3)),
    "reshape": lambda x: x.reshape(2, -1),
    "reshape of a size": lambda x: x.reshape(torch.Size([6, 2])),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(0, -1),
    "transpose of one axis": lambda x: x.transpose(1, 1),
    "transpose by names": lambda x: x.transpose(dim0=0, dim1=1),
    "permute": lambda x: x.permute(1, 0),
    "permute from the end": lambda x: x.permute(-1, 0),
    "permute of a tuple": lambda x: x.permute((1, 0)),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "unsqueeze by name": lambda x: x.unsqueeze(dim=1),
    "squeeze of nothing": lambda x: x.squeeze(0),
    "squeeze": lambda x: _narrow(x.unsqueeze(1)),
    "squeeze of all": lambda x: _bare(x.unsqueeze(1)),
    "squeeze of all, of none": lambda x: x.squeeze(),
    "data": lambda x: x.data,
    "flatten": lambda x: x.flatten(),
    "flatten from an axis": lambda x: _row(x.unsqueeze(1)),
    "flatten of one axis": lambda x: x.flatten(1),
    "flatten from the end": lambda x: x.flatten(-2),
    "chained": lambda x: x[1:].t().detach()[0].view(-1),
}


def _first(x):  # of what has a name
    return x[0]


def _narrow(x):
    return x.squeeze(1)


def _bare(x):
    return x.squeeze()


def _row(x):
    return x.flatten(1)


KINDS = {
    "plain": lambda: torch.arange(12.0).reshape(3, 4).clone(),
    "a leaf": lambda: torch.arange(12.0).reshape(3, 4).clone().requires_grad_(),
    "recorded": lambda: torch.arange(12.0).reshape(3, 4).requires_grad_() * 2,
    "turned": lambda: torch.arange(12.0).reshape(4, 3).clone().t(),
    "cut": lambda: torch.arange(24.0).reshape(3, 8).clone()[:, ::2],
    "detached": lambda: torch.ones(3, 4, requires_grad=True).detach(),
    "a view of a leaf": lambda: torch.ones(12, requires_grad=True).view(3, 4),
    "expanded": lambda: torch.arange(4.0).clone().expand(3, 4),
    "a parameter": lambda: torch.nn.Parameter(torch.arange(12.0).reshape(3, 4)),
    "a turned parameter": lambda: torch.nn.Parameter(torch.arange(12.0).reshape(4, 3).t()),
    "a frozen parameter": lambda: torch.nn.Parameter(torch.ones(3, 4), requires_grad=False),
    "data": lambda: torch.nn.Parameter(torch.ones(3, 4)).data,
    "written": lambda: _written(),
    "a view of what was written": lambda: _written().view(12)[:12].view(3, 4),
    "what was written, turned": lambda: torch.zeros(4, 3).add_(1).t(),
    "what was written, detached": lambda: _written().detach(),
    "what was written with a history": lambda: _written(True),
    "what was written and lent": lambda: _lent(_written()),
    "a parameter with a view that was written": lambda: _view_written(),
}


def _written(recorded=False):
    x = torch.zeros(3, 4)
    x[1] = torch.ones(4, requires_grad=True) * 2 if recorded else 2.0
    x.add_(torch.arange(12.0).reshape(3, 4))
    return x


_arrays = []


def _lent(x):
    _arrays.append(x.detach().numpy())
    return x


def _view_written():
    p = torch.nn.Parameter(torch.ones(3, 4))
    _arrays.append(p.detach())
    _arrays[-1].mul_(2.0)
    return p


@pytest.fixture(params=["before the first write", "after it"])
def phase(request, first_writes_look_at_what_the_file_made):
    noting.forget()
    if request.param == "after it":
        noting.start()
    yield request.param
    noting.start()


def _told(x, out):
    """What there is to tell of a view: its record and what it is."""
    record = getattr(out, "_view", None)
    held = out.read() if out.written else out
    node = held._node
    seen = (
        type(out), type(held), out.tolist(), held._a.strides, np.shares_memory(held._a, _array(x)),
        type(node), None if node is None else node.name(),
    )  # fmt: skip
    if record is None or record.family is None:
        return seen, None if record is None else record.base is x
    fields = {n: getattr(record, n, None) for n in View.__slots__ if n not in _OTHERS}
    path = [(primitive, params) for primitive, params in record.path]
    members = any(held() is out for held in record.family.members)
    return (*seen, path, fields, record.base is x, members, record.family.watched), None


_OTHERS = {"__weakref__", "path", "base", "family", "value", "source", "first", "since"}


def _array(x):
    return (x.read() if x.level > 0 else x)._a


@pytest.mark.parametrize("call", CALLS)
def test_the_quick_way_notes_what_the_common_one_does(call, phase):
    for kind, make in KINDS.items():
        if "written" not in kind or phase == "after it":
            _compare(f"{call} of {kind}", CALLS[call], make)


def _compare(name, f, make):
    told = []
    for common in (True, False, True, False):
        x = make()
        _ = f(x) if common else None  # the record of x is there, or is made
        space = viewing._SPACE
        space["_latest"] = object() if common else globals()
        outs = []
        for _ in range(2):
            try:
                outs.append(f(x))
            except Exception as error:
                told.append((type(error), str(error)))
            else:
                told.append(_told(x, outs[-1]))
            space["_latest"] = object() if common else globals()
    assert told[0] == told[2] == told[4] == told[6], name
    assert told[1] == told[3] == told[5] == told[7], name


QUICK = (
    "an int", "a slice", "a tuple", "an element", "detach", "view", "reshape", "t", "T",
    "transpose", "permute", "unsqueeze", "flatten",
)  # fmt: skip


TAKEN = ["plain", "recorded", "a view of a leaf", "a parameter", "written",
         "a view of what was written"]  # fmt: skip


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("call", QUICK)
def test_it_is_taken(call, kind, monkeypatch):
    noting.start()
    x, f = KINDS[kind](), CALLS[call]
    kept = f(x)  # a record is there, and who calls is known
    monkeypatch.setattr(noting, "link", _refuses)
    monkeypatch.setitem(viewing._SPACE, "_linked", _refuses)
    monkeypatch.setattr(noting.Primitive, "__call__", _refuses)
    again = f(x)
    monkeypatch.undo()
    assert again._view.family is kept._view.family and again.tolist() == kept.tolist()


def _refuses(*args, **kwargs):
    raise AssertionError("it went the common way")


@pytest.mark.parametrize("call", QUICK)
def test_writes_go_through(call):
    for kind in ("plain", "a parameter", "recorded", "written", "a view of what was written"):
        x, f = KINDS[kind](), CALLS[call]
        f(x)
        v = f(x)
        with torch.no_grad():
            v.fill_(-7.0)
        assert f(x).tolist() == v.tolist(), kind
        assert str(x.tolist()).count("-7.0") == v.numel(), kind
