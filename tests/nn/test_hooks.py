"""Hooks: forward, backward and state-dict hooks, against torch's."""

import copy
import pickle
import warnings
from collections import OrderedDict

import numpy as np
import pytest

import fx
from fx.errors import StateError

torch = pytest.importorskip("torch")

from tests.nn.oracle import close, copy_state

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


class Lib:
    """One of the two libraries, under one face."""

    def __init__(self, module):
        self.nn = module.nn
        self.tensor = module.tensor
        self.module = fx.nn.base.module if module is fx else torch.nn.modules.module
        self.ones = module.ones
        self.no_grad = module.no_grad


LIBS = (Lib(fx), Lib(torch))


def model(lib):
    """Two layers, one of which takes and gives several tensors."""
    nn = lib.nn

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, y, scale=1):
            return self.fc(x) * scale, x * y

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.two = Two()

        def forward(self, x):
            a, b = self.two(self.first(x), x, scale=2)
            return a * b

    net = Net()
    for i, p in enumerate(net.parameters()):
        with lib.no_grad():
            p.fill_(0.25 * i - 0.3)
    return net


def values(x):
    """Tensors as lists, in tuples too."""
    if isinstance(x, tuple | list):
        return type(x)(map(values, x))
    if isinstance(x, dict):
        return {k: values(v) for k, v in x.items()}
    return np.round(x.detach().numpy(), 4).tolist() if hasattr(x, "detach") else x


def both(program):
    """What a program does with each library, which must be the same."""
    ours, theirs = program(LIBS[0]), program(LIBS[1])
    assert ours == theirs
    return ours


def test_forward_hooks_in_order_and_replacing():
    def program(lib):
        net, seen = model(lib), []

        def note(name, change=None):
            def hook(module, *rest):
                seen.append((name, type(module).__name__, values(rest)))
                return change(*rest) if change else None

            return hook

        two = net.two
        two.register_forward_pre_hook(note("pre"))
        two.register_forward_pre_hook(
            note("first", lambda args: (args[0] + 1, args[1])), prepend=True
        )
        two.register_forward_pre_hook(
            note("kwargs", lambda args, kwargs: (args, {"scale": 3})), with_kwargs=True
        )
        two.fc.register_forward_pre_hook(note("one", lambda args: args[0] * 2))
        two.register_forward_hook(note("post", lambda args, out: (out[0] + 1, out[1])))
        handle = two.register_forward_hook(note("last"), with_kwargs=True)
        two.register_forward_hook(note("before"), prepend=True)
        out = [values(net(lib.tensor(X)))]
        handle.remove()
        handle.remove()
        out.append(values(net(lib.tensor(X))))
        return out, seen

    _, seen = both(program)
    assert [name for name, *_ in seen[:7]] == [
        "first", "pre", "kwargs", "one", "before", "post", "last",
    ]  # fmt: skip


def test_pre_hooks_must_return_pairs():
    def program(lib):
        layer = lib.nn.Identity()
        layer.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
        with pytest.raises(RuntimeError, match="must return None or a tuple of") as caught:
            layer(1)
        return str(caught.value)

    both(program)


def test_hooks_that_are_always_called():
    def program(lib):
        seen = []

        class Broken(lib.nn.Module):
            def forward(self, x):
                raise KeyError("broken")

        def hook(module, args, out):
            seen.append(out)

        def bad(module, args, out):
            raise ValueError("bad hook")

        layer = Broken()
        layer.register_forward_hook(hook, always_call=True)
        layer.register_forward_hook(lambda m, a, o: seen.append("not called"))
        layer.register_forward_hook(bad, always_call=True)
        with pytest.raises(KeyError), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            layer(1)
        return seen, [str(w.message) for w in caught]

    both(program)


def test_backward_hooks_see_and_replace_gradients():
    def program(lib):
        net, seen = model(lib), []

        def note(name, change=None):
            def hook(module, *grads):
                seen.append((name, type(module).__name__, values(grads)))
                return change(*grads) if change else None

            return hook

        net.two.register_full_backward_hook(note("two", lambda gi, go: (gi[0] * 2, None)))
        net.two.register_full_backward_hook(note("again"), prepend=True)
        net.two.register_full_backward_pre_hook(note("pre", lambda go: (go[0], go[1] + 1)))
        net.two.fc.register_full_backward_hook(note("fc", lambda gi, go: (gi[0] * 3,)))
        net.first.register_full_backward_hook(note("first"))  # its input requires no grad
        handle = net.register_full_backward_hook(note("net"))
        x = lib.tensor(X)
        net(x).sum().backward()
        handle.remove()
        out = [values(p.grad) for p in net.parameters()]
        x = lib.tensor(X).requires_grad_()
        net(x).sum().backward()
        return out, [values(p.grad) for p in net.parameters()], values(x.grad), seen

    both(program)


def test_what_backward_hooks_refuse():
    def program(lib):
        said = []
        for layer, grad, wrong in (
            (lib.nn.ReLU(), True, lambda m, gi, go: (gi[0], gi[0])),
            (lib.nn.Linear(4, 4), False, lambda m, gi, go: go),
        ):
            layer.register_full_backward_hook(wrong)
            x = lib.tensor(X)
            x = x.requires_grad_() if grad else x
            with pytest.raises(RuntimeError) as caught:
                layer(x).sum().backward()
            said.append(str(caught.value))
        layer = lib.nn.ReLU()
        layer.register_full_backward_pre_hook(lambda m, go: (go[0], go[0]))
        with pytest.raises(RuntimeError) as caught:
            layer(lib.tensor(X).requires_grad_()).sum().backward()
        return [*said, str(caught.value)]

    both(program)


def test_backward_hooks_of_modules_that_return_no_tensor():
    class Pair(fx.nn.Module):
        def forward(self, x):
            return {"x": x}

    layer = Pair()
    layer.register_full_backward_hook(lambda m, gi, go: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
        layer(fx.ones(2, requires_grad=True))


def test_hooks_of_all_modules():
    def program(lib):
        net, seen = model(lib), []
        of = lib.module
        handles = [
            of.register_module_forward_pre_hook(
                lambda m, a: seen.append(("pre", type(m).__name__))
            ),
            of.register_module_forward_hook(
                lambda m, a, o: seen.append(("post", type(m).__name__))
            ),
            of.register_module_full_backward_pre_hook(
                lambda m, go: seen.append(("back", type(m).__name__, values(go)))
            ),
            of.register_module_full_backward_hook(
                lambda m, gi, go: seen.append(("backward", type(m).__name__, values(gi)))
            ),
        ]
        net.first.register_forward_pre_hook(lambda m, a: seen.append("own"))
        net(lib.tensor(X)).sum().backward()
        for handle in handles:
            handle.remove()
        net(lib.tensor(X))
        return seen

    assert len(both(program)) > 12
    assert not fx.nn.Module._hooked  # calls look for hooks no more


def test_hooks_travel_with_copies():
    layer = fx.nn.Linear(4, 4)
    layer.register_forward_hook(_double)
    expected = layer(fx.tensor(X))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        close(other(fx.tensor(X)), torch.tensor(expected.detach().numpy()))
    with fx.no_grad():
        plain = layer.forward(fx.tensor(X))
    close(expected, torch.tensor(2 * plain.numpy()))


def _double(module, args, out):
    return out * 2


def test_registration_hooks():
    def program(lib):
        seen, of = [], lib.module

        def note(kind):
            return lambda module, name, value: seen.append((kind, type(module).__name__, name))

        def swap(module, name, value):
            return lib.nn.Tanh() if isinstance(value, lib.nn.ReLU) else None

        handles = [
            of.register_module_parameter_registration_hook(note("parameter")),
            of.register_module_buffer_registration_hook(note("buffer")),
            of.register_module_module_registration_hook(note("module")),
            of.register_module_module_registration_hook(swap),
        ]
        try:
            net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU())
            net.extra = lib.nn.ReLU()
            net.scale = lib.nn.Parameter(lib.ones(1))
            net.register_buffer("held", lib.ones(1))
        finally:
            for handle in handles:
                handle.remove()
        lib.nn.Sequential(lib.nn.ReLU())
        return seen, repr(net)

    both(program)


# under transforms -------------------------------------------------------------------------------


def test_hooks_under_transforms():
    net = model(LIBS[0])
    seen = []
    net.two.register_forward_hook(lambda m, a, out: (out[0] * 3, out[1]))
    net.two.register_full_backward_hook(
        lambda m, gi, go: seen.append(len(gi)) or (gi[0] * 2, gi[1])
    )
    x = fx.tensor(X)
    loss = lambda m, x: m(x).sum()
    net(x).sum().backward()
    expected = [p.grad.numpy() for p in net.parameters()]
    gradient = fx.grad(loss)(net, x)
    for p, e in zip(gradient.parameters(), expected):
        np.testing.assert_allclose(p.detach().numpy(), e, rtol=1e-5)
    rows = fx.vmap(fx.grad(loss), (None, 0))(net, x)
    for p, e in zip(rows.parameters(), expected):
        np.testing.assert_allclose(p.detach().sum(0).numpy(), e, rtol=1e-5)
    assert set(seen) == {2}


def test_bound_methods_as_hooks_are_those_of_the_copy():
    class Noting(fx.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = fx.nn.Linear(4, 4)
            self.fc.register_forward_hook(self.note)
            self.fc.register_full_backward_hook(self.note_gradient)

        def note(self, module, args, out):
            self.seen = out

        def note_gradient(self, module, grad_input, grad_output):
            self.gradient = grad_output[0]

        def forward(self, x):
            return self.fc(x).sum() + 0 * self.seen.sum()

    net = Noting()
    gradient = fx.grad(lambda m: m(fx.tensor(X)))(net)
    assert gradient.fc.weight.shape == (4, 4)
    assert not hasattr(net, "seen") and not hasattr(net, "gradient")
    assert fx.tree.structure(net) == fx.tree.structure(net)
    net(fx.tensor(X)).backward()
    assert float(net.gradient.sum()) == 12


def test_hooks_under_jit_and_their_changes():
    net = model(LIBS[0])
    net.zero_grad()
    x = fx.tensor(X)

    @fx.jit
    def step(x):
        net.zero_grad()
        loss = net(x).sum()
        loss.backward()
        return loss

    eager = lambda: [net(x).sum().detach().numpy()]
    rows = [float(step(x)), float(step(x))]
    first = net.first.weight.grad.numpy().copy()
    handle = net.two.register_forward_hook(lambda m, a, out: (out[0] * 3, out[1]))
    rows.append(float(step(x)))
    back = net.two.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2, gi[1]))
    step(x)
    hooked = net.first.weight.grad.numpy().copy()
    handle.remove()
    rows.append(float(step(x)))
    np.testing.assert_allclose(rows, [rows[0], rows[0], 3 * rows[0], rows[0]], rtol=1e-5)
    np.testing.assert_allclose(hooked, 6 * first, rtol=1e-4)
    back.remove()
    step(x)
    np.testing.assert_allclose(net.first.weight.grad.numpy(), first, rtol=1e-5)
    with fx.nn.base.module.register_module_forward_hook(lambda m, a, out: None):
        assert float(step(x)) == pytest.approx(rows[0])
    changed = fx.nn.base.module.register_module_forward_hook(
        lambda m, a, out: out * 2 if isinstance(m, fx.nn.Linear) else None
    )
    try:
        assert float(step(x)) == pytest.approx(float(eager()[0]), rel=1e-5)
    finally:
        changed.remove()
    assert float(step(x)) == pytest.approx(rows[0], rel=1e-5)


# state dicts ------------------------------------------------------------------------------------


def test_state_dict_hooks():
    def program(lib):
        net, seen = model(lib), []
        net.two.register_state_dict_pre_hook(
            lambda m, prefix, keep: seen.append((type(m).__name__, prefix, keep))
        )

        def rename(module, state, prefix, metadata):
            seen.append((prefix, dict(metadata)))
            state[prefix + "renamed"] = state.pop(prefix + "fc.weight")

        net.two.register_state_dict_post_hook(rename)
        net._register_state_dict_hook(lambda m, s, p, meta: OrderedDict(list(s.items())[1:]))
        state = net.state_dict(prefix="net.")

        def undo(module, state, prefix, metadata, strict, missing, unexpected, errors):
            seen.append((type(module).__name__, prefix, strict))
            state[prefix + "fc.weight"] = state.pop(prefix + "renamed")

        net.two.register_load_state_dict_pre_hook(undo)
        net.first._register_load_state_dict_pre_hook(
            lambda state, prefix, *rest: state.update({prefix + "weight": lib.ones((4, 4))})
        )

        def forgive(module, keys):
            seen.append(
                (type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys))
            )
            keys.unexpected_keys.clear()

        net.register_load_state_dict_post_hook(forgive)
        state["net.odd"] = lib.ones(1)
        found = net.load_state_dict({k[4:]: v for k, v in state.items()})
        return list(state), seen, repr(found), values(net.first.weight)

    both(program)


def test_post_hooks_return_nothing():
    def program(lib):
        said = []
        layer = lib.nn.Linear(2, 2)
        layer.register_state_dict_post_hook(lambda *args: 1)
        with pytest.raises(RuntimeError) as caught:
            layer.state_dict()
        said.append(str(caught.value))
        layer = lib.nn.Linear(2, 2)
        layer.register_load_state_dict_post_hook(lambda m, keys: 1)
        with pytest.raises(AssertionError) as caught:
            layer.load_state_dict(layer.state_dict())
        return [*said, str(caught.value)]

    both(program)


def test_extra_state_and_overridden_saving():
    def program(lib):
        nn = lib.nn

        class Counted(nn.Module):
            _version = 3

            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
                self.count = 5
                self.seen = []

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

            def _save_to_state_dict(self, destination, prefix, keep_vars):
                super()._save_to_state_dict(destination, prefix, keep_vars)
                destination[prefix + "more"] = lib.ones(1)

            def _load_from_state_dict(self, state, prefix, local_metadata, strict, *lists):
                self.seen.append((local_metadata.get("version"), prefix, strict))
                state.pop(prefix + "more", None)
                super()._load_from_state_dict(state, prefix, local_metadata, strict, *lists)

        outer = nn.Sequential(Counted(), nn.BatchNorm1d(2))
        state = outer.state_dict()
        other = nn.Sequential(Counted(), nn.BatchNorm1d(2))
        other[0].count = 1
        out = [list(state), {k: dict(v) for k, v in state._metadata.items()}]
        out += [repr(other.load_state_dict(state)), other[0].count, other[0].seen]
        del state["0._extra_state"]
        state["1._extra_state"] = 1
        with pytest.raises(RuntimeError) as caught:
            other.load_state_dict(state)
        into = {"old": 1}
        assert outer.state_dict(destination=into, prefix="p.") is into
        with pytest.warns(FutureWarning):
            again = outer.state_dict({}, "q.")
        return [*out, str(caught.value), list(into), list(again), out[1]]

    both(program)


def test_a_failed_load_changes_nothing():
    net = model(LIBS[0])
    before = [p.detach().numpy().copy() for p in net.parameters()]
    state = net.state_dict()
    wrong = {k: v + 1 for k, v in state.items()}
    wrong["two.fc.bias"] = fx.ones(9)
    with pytest.raises(StateError, match=r"size mismatch for two.fc.bias: .* \(9,\) .* \(4,\)"):
        net.load_state_dict(wrong)
    for p, b in zip(net.parameters(), before):
        np.testing.assert_array_equal(p.detach().numpy(), b)


def test_torchs_tensors_load_as_they_are():
    ours, theirs = model(LIBS[0]), model(LIBS[1])
    assert repr(ours.load_state_dict(theirs.state_dict())) == "<All keys matched successfully>"
    copy_state(ours, theirs)
    close(ours(fx.tensor(X)), theirs(torch.tensor(X)))
