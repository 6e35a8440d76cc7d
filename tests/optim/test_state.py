"""State of optimizers: state dicts both ways with torch, hooks, copies, pickles."""

import copy
import pickle

import numpy as np
import pytest

import fx
from fx.errors import StateError

torch = pytest.importorskip("torch")

import torch.optim.optimizer as torch_optimizer

import fx.optim.optimizer as fx_optimizer
from tests.nn.oracle import close
from tests.optim.cases import CASES, MATRICES, advance, fx_loss, pair, to_torch, torch_loss

ALL = CASES + MATRICES


def equal(ours, others):
    for p, q in zip(ours, others, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


@pytest.mark.parametrize(("name", "options"), ALL, ids=str)
def test_resuming_from_a_state_dict(name, options):
    ours, _, optimizer, _ = pair(name, options)
    advance(optimizer, ours, fx_loss, 4)
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    again = [fx.nn.Parameter(p.detach()) for p in ours]
    other = getattr(fx.optim, name)(again, lr=123.0)
    other.load_state_dict(saved)
    advance(optimizer, ours, fx_loss, 4, start=4)
    advance(other, again, fx_loss, 4, start=4)
    equal(ours, again)


@pytest.mark.parametrize(("name", "options"), ALL, ids=str)
def test_going_on_from_torchs_state(name, options):
    ours, theirs, _, b = pair(name, options)
    advance(b, theirs, torch_loss, 4)
    for p, q in zip(ours, theirs):
        p.data = fx.tensor(q.detach().numpy())
    a = getattr(fx.optim, name)(ours, lr=123.0)
    a.load_state_dict(copy.deepcopy(b.state_dict()))
    for step in range(4, 8):
        advance(a, ours, fx_loss, 1, step)
        advance(b, theirs, torch_loss, 1, step)
        for p, q in zip(ours, theirs):
            close(p, q, f"after step {step}")


@pytest.mark.parametrize(("name", "options"), ALL, ids=str)
def test_torch_goes_on_from_ours(name, options):
    ours, theirs, a, _ = pair(name, options)
    advance(a, ours, fx_loss, 4)
    saved = to_torch(a.state_dict())
    for p, q in zip(ours, theirs):
        q.data = torch.tensor(p.detach().numpy())
    b = getattr(torch.optim, name)(theirs, lr=123.0)
    b.load_state_dict(saved)
    for step in range(4, 8):
        advance(a, ours, fx_loss, 1, step)
        advance(b, theirs, torch_loss, 1, step)
        for p, q in zip(ours, theirs):
            close(p, q, f"after step {step}")


def test_sparse_adam_goes_on_from_torchs_state_and_back():
    ours = fx.nn.Parameter(fx.ones((3, 2), dtype=fx.float64))
    theirs = torch.nn.Parameter(torch.ones(3, 2, dtype=torch.float64))
    a, b = fx.optim.SparseAdam([ours]), torch.optim.SparseAdam([theirs])

    def both(steps):
        for i in range(steps):
            g = np.eye(3, 2) * (i + 1)
            ours.grad, theirs.grad = fx.tensor(g), torch.tensor(g).to_sparse(1)
            a.step(), b.step()
            close(ours, theirs)

    both(3)
    a.load_state_dict(b.state_dict())
    both(2)
    b.load_state_dict(to_torch(a.state_dict()))
    both(2)


@pytest.mark.parametrize(("name", "options"), ALL, ids=str)
def test_a_copy_and_a_pickle_go_on_by_themselves(name, options):
    ours, _, optimizer, _ = pair(name, options)
    advance(optimizer, ours, fx_loss, 3)
    again, other = copy.deepcopy((ours, optimizer))
    loaded, third = pickle.loads(pickle.dumps((ours, optimizer)))
    before = [p.detach() for p in ours]
    for ps, o in ((again, other), (loaded, third)):
        assert o.param_groups[0]["params"][0] is ps[0]
        advance(o, ps, fx_loss, 2, start=3)
    equal(ours, before)
    advance(optimizer, ours, fx_loss, 2, start=3)
    equal(again, ours)
    equal(loaded, ours)
    assert repr(other) == repr(optimizer)


def test_groups_and_tensor_options_in_a_state_dict():
    ours, theirs, _, _ = pair("Adam", {})
    b = torch.optim.Adam(
        [{"params": theirs[:1]}, {"params": theirs[1:], "lr": torch.tensor(0.01)}], lr=0.1
    )
    torch.optim.lr_scheduler.StepLR(b, 3)
    advance(b, theirs, torch_loss, 2)
    a = fx.optim.Adam([{"params": ours[:1]}, {"params": ours[1:], "lr": fx.tensor(1.0)}])
    a.load_state_dict(copy.deepcopy(b.state_dict()))
    assert isinstance(a.param_groups[1]["lr"], fx.Tensor)
    assert a.param_groups[0]["initial_lr"] == 0.1 and a.param_groups[0]["lr"] == 0.1
    for p, q in zip(ours, theirs):
        p.data = fx.tensor(q.detach().numpy())
    advance(a, ours, fx_loss, 2, start=2)
    advance(b, theirs, torch_loss, 2, start=2)
    for p, q in zip(ours, theirs):
        close(p, q)


def test_slots_are_read_and_written_by_name():
    ours, _, optimizer, _ = pair("Adam", {"lr": 0.1})
    advance(optimizer, ours, fx_loss, 1)
    held = optimizer.state[ours[0]]
    assert list(held) == ["step", "exp_avg", "exp_avg_sq"] and float(held["step"]) == 1
    held["exp_avg"].zero_()
    held["exp_avg_sq"].mul_(2.0)
    np.testing.assert_array_equal(optimizer.state_dict()["state"][0]["exp_avg"].numpy(), 0)
    advance(optimizer, ours, fx_loss, 1)
    assert float(held["step"]) == 2


def test_a_state_dict_is_a_snapshot():
    ours, _, optimizer, _ = pair("Adam", {})
    advance(optimizer, ours, fx_loss, 1)
    saved = optimizer.state_dict()
    before = saved["state"][0]["exp_avg"].numpy().copy()
    advance(optimizer, ours, fx_loss, 2)
    np.testing.assert_array_equal(saved["state"][0]["exp_avg"].numpy(), before)


def test_what_was_loaded_is_not_shared_with_torch():
    ours, theirs, a, b = pair("Adam", {})
    advance(b, theirs, torch_loss, 1)
    a.load_state_dict(b.state_dict())
    before = a.state_dict()["state"][0]["exp_avg"].numpy().copy()
    advance(b, theirs, torch_loss, 3)
    np.testing.assert_array_equal(a.state[ours[0]]["exp_avg"].numpy(), before)
    assert float(a.state[ours[0]]["step"]) == 1


def test_what_loading_refuses():
    p = fx.nn.Parameter(fx.ones(2))
    optimizer = fx.optim.Adam([p])
    saved = optimizer.state_dict()
    with pytest.raises(StateError, match="a different number of parameter groups: 2"):
        optimizer.load_state_dict({**saved, "param_groups": saved["param_groups"] * 2})
    two = [{**saved["param_groups"][0], "params": [0, 1]}]
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({**saved, "param_groups": two})
    with pytest.raises(StateError, match=r"holds exp_avg of shape \(3,\) for a parameter of shape"):
        optimizer.load_state_dict({**saved, "state": {0: {"exp_avg": np.ones(3, "float32")}}})
    factored = fx.optim.Adafactor([fx.nn.Parameter(fx.ones((2, 3)))])
    bad = {**factored.state_dict(), "state": {0: {"row_var": np.ones((2, 3), "float32")}}}
    with pytest.raises(StateError, match=r"holds row_var .* where \(2, 1\) was expected"):
        factored.load_state_dict(bad)


# hooks ------------------------------------------------------------------------------------------


def hooked(lib, register):
    """What hooks see and do in one library."""
    said = []
    w = lib.nn.Parameter(lib.ones(1))
    optimizer = lib.optim.SGD([w], lr=0.5)
    handles = register(lib, optimizer, said)
    w.grad = lib.ones(1)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    said.append(float(w.detach()))
    for handle in handles:
        handle.remove()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    return said, float(w.detach())


def _steps(lib, o, said):
    everywhere = fx_optimizer if lib is fx else torch_optimizer

    def note(word):
        return lambda optimizer, args, kwargs: said.append((word, args == (o,) == (optimizer,)))

    return [
        o.register_step_pre_hook(note("before")),
        o.register_step_post_hook(note("after")),
        everywhere.register_optimizer_step_pre_hook(note("before all")),
        everywhere.register_optimizer_step_post_hook(note("after all")),
    ]


def _replaced(lib, o, said):
    def closure():
        said.append("closure")
        return 3.0

    return [o.register_step_pre_hook(lambda optimizer, args, kwargs: ((o, closure), {}))]


def _states(lib, o, said):
    return [
        o.register_state_dict_pre_hook(lambda o: said.append("saving")),
        o.register_state_dict_pre_hook(lambda o: said.append("first"), prepend=True),
        o.register_state_dict_post_hook(lambda o, d: said.append(sorted(d))),
        o.register_state_dict_post_hook(lambda o, d: {**d, "more": 1}),
        o.register_load_state_dict_pre_hook(lambda o, d: said.append(sorted(d))),
        o.register_load_state_dict_pre_hook(lambda o, d: {k: d[k] for k in d if k != "more"}),
        o.register_load_state_dict_post_hook(lambda o: said.append("loaded")),
    ]


@pytest.mark.parametrize("register", [_steps, _replaced, _states])
def test_hooks_are_torchs(register):
    (said, w), (expected, v) = hooked(fx, register), hooked(torch, register)
    assert w == v
    assert [str(x) for x in said if not isinstance(x, float)] == [
        str(x) for x in expected if not isinstance(x, float)
    ]
    assert said


def test_a_pre_hook_must_give_arguments():
    for lib in (fx, torch):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))])
        optimizer.register_step_pre_hook(lambda *_: 3)
        with pytest.raises(RuntimeError, match="must return None or a tuple of"):
            optimizer.step()
