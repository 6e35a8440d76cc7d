"""no_grad, enable_grad, inference_mode, set_grad_enabled: nesting, decorators, threads."""

import threading

import pytest

import fx

torch = pytest.importorskip("torch")
MODES = ["no_grad", "enable_grad", "inference_mode"]


@pytest.fixture
def x():
    return fx.ones(2, requires_grad=True)


def recorded(x):
    """What the modes say, and what is recorded."""
    assert fx.is_grad_enabled() == (x * 2).requires_grad
    return fx.is_grad_enabled(), fx.is_inference_mode_enabled()


def torch_recorded(t):
    return (t * 2).requires_grad, torch.is_inference_mode_enabled()


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_nested_modes_equal_torch(outer, inner, x):
    def states(m, look, tensor):
        seen = [look(tensor)]
        with getattr(m, outer)():
            seen.append(look(tensor))
            with getattr(m, inner)():
                seen.append(look(tensor))
            seen.append(look(tensor))
        return [*seen, look(tensor)]

    ours = states(fx, recorded, x)
    theirs = states(torch, torch_recorded, torch.ones(2, requires_grad=True))
    for a, b in zip(ours, theirs, strict=True):
        assert a[0] == b[0] and (a[1] == b[1] or "inference_mode" in (outer, inner))


@pytest.mark.parametrize("mode", [fx.no_grad, fx.inference_mode])
def test_decorators_with_and_without_brackets(mode, x):
    @mode
    def bare(x):
        return recorded(x)

    @mode()
    def called(x):
        """Doc."""
        return recorded(x)

    assert bare(x)[0] is False and called(x)[0] is False and recorded(x)[0] is True
    assert called.__name__ == "called" and called.__doc__ == "Doc."


def test_modes_end_with_exceptions(x):
    with pytest.raises(KeyError), fx.no_grad(), fx.enable_grad(), fx.no_grad():
        raise KeyError
    assert recorded(x)[0] is True


def test_one_object_may_be_entered_again(x):
    mode = fx.no_grad()
    with mode:
        with mode:
            assert not (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_a_recursive_decorated_function(x):
    @fx.no_grad()
    def f(n):
        assert not (x * 2).requires_grad
        return f(n - 1) if n else None

    f(3)
    assert (x * 2).requires_grad


def test_inference_mode_takes_a_flag(x):
    with fx.inference_mode():
        with fx.inference_mode(False):
            assert recorded(x) == (True, False)
        assert recorded(x) == (False, True)
    with fx.inference_mode(mode=True):
        assert recorded(x) == (False, True)


def test_set_grad_enabled_at_once_as_a_block_and_as_a_decorator(x):
    before = fx.set_grad_enabled(False)
    assert recorded(x)[0] is False
    fx.set_grad_enabled(True)
    assert recorded(x)[0] is True
    del before
    for flag in (False, True, False):
        with fx.set_grad_enabled(flag):
            assert recorded(x)[0] is flag
        assert recorded(x)[0] is True

    @fx.set_grad_enabled(False)
    def f(x):
        return recorded(x)[0]

    assert f(x) is False and recorded(x)[0] is True


def test_generators_run_in_their_mode_and_yield_out_of_it(x):
    @fx.no_grad()
    def numbers(n):
        got = []
        try:
            for i in range(n):
                assert not (x * 2).requires_grad
                got.append((yield i))
        except KeyError:
            assert not (x * 2).requires_grad
            yield "caught"
        return got

    generator = numbers(3)
    for i in range(3):
        assert (next(generator) if i == 0 else generator.send(i * 10)) == i
        assert (x * 2).requires_grad
    with pytest.raises(StopIteration) as stop:
        generator.send(30)
    assert stop.value.value == [10, 20, 30]
    generator = numbers(3)
    next(generator)
    assert generator.throw(KeyError()) == "caught"
    assert (x * 2).requires_grad
    generator.close()
    assert (x * 2).requires_grad


def test_modes_belong_to_their_thread(x):
    seen = []
    with fx.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
        thread.start()
        thread.join()
        assert not (x * 2).requires_grad
    assert seen == [True]


# modes and transforms ---------------------------------------------------------------------------


def test_no_grad_around_a_transform_leaves_it_alone(x):
    with fx.no_grad():
        assert fx.grad(lambda x: (x * x).sum())(fx.ones(2)).tolist() == [2.0, 2.0]
        assert fx.grad(fx.grad(lambda x: x * x * x))(fx.tensor(1.0)).item() == 6.0
        assert not fx.grad(lambda v: (v * x).sum())(fx.ones(2)).requires_grad
        assert fx.vmap(fx.grad(lambda v: v * v))(fx.ones(2)).tolist() == [2.0, 2.0]


def test_no_grad_inside_a_transformed_function_is_respected():
    def f(x):
        with fx.no_grad():
            shift = x * x
        return (x * shift).sum()

    assert fx.grad(f)(fx.tensor([1.0, 3.0])).tolist() == [1.0, 9.0]
    t = torch.func.grad(lambda t: (t * (t * t).detach()).sum())(torch.tensor([1.0, 3.0]))
    assert t.tolist() == [1.0, 9.0]


def test_no_grad_inside_reaches_the_outer_transforms_too():
    def f(x):
        with fx.no_grad():
            c = x * x
        return x * c

    # d/dx [d/dx (x * const)] = d/dx const = 0
    assert fx.grad(fx.grad(f))(fx.tensor(3.0)).item() == 0.0
    assert fx.grad(lambda x: fx.grad(f)(x) * x)(fx.tensor(3.0)).item() == 9.0


def test_enable_grad_inside_no_grad_inside_a_transform():
    def f(x):
        with fx.no_grad():
            with fx.enable_grad():
                y = x * x
            z = x * 5.0
        return y + z

    assert fx.grad(f)(fx.tensor(3.0)).item() == 6.0


def test_forward_mode_does_not_ask_as_in_torch():
    with fx.no_grad():
        _, t = fx.jvp(lambda x: x * x, (fx.tensor(3.0),), (fx.tensor(1.0),))
    assert t.item() == 6.0


def test_backward_works_inside_no_grad(x):
    y = (x * x).sum()
    with fx.no_grad():
        y.backward()
    assert x.grad.tolist() == [2.0, 2.0] and not x.grad.requires_grad


def test_enable_grad_inside_a_backward_rule_records(x):
    """A hand-written checkpoint, as PyTorch scripts have it."""

    class Checkpoint(fx.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run = run
            ctx.save_for_backward(x)
            return run(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with fx.enable_grad():
                y = ctx.run(x)
            fx.autograd.backward(y, g)
            return None, x.grad

    Checkpoint.apply(lambda x: (x * x * x).sum(), x * 2.0).backward()
    assert x.grad.tolist() == [24.0, 24.0]

    def slope(x):
        x = x.requires_grad_()
        Checkpoint.apply(lambda x: x * x * x, x * 2.0).backward()
        return x.grad

    assert fx.vmap(slope)(fx.ones(2)).tolist() == [24.0, 24.0]


def test_a_pass_within_a_pass_records_nothing_of_the_outer_one(x):
    w = fx.ones((), requires_grad=True)

    class Inner(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors

            def slope(v):
                v = v.requires_grad_()
                (v * v * w).backward()
                return v.grad

            return fx.vmap(slope)(x)

    Inner.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and not x.grad.requires_grad
