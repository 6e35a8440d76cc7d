"""The one interpreter: tensors and arrays go the same way; nothing is kept after its last use."""

import gc
import weakref

import numpy as np

import fx
from fx.backends.cpu.control_flow import ARRAYS
from fx.frames import is_internal
from fx.graph.walking import TENSORS, Values, runner
from fx.prims.sampling import Sample


def _graph():
    def f(x, y):
        a = fx.sin(x) * y
        values, places = a.max(dim=1)
        return a.sum(), values, places, x, 3.0 * fx.ones(2)

    return fx.make_graph(f)(fx.ones((2, 3)), fx.ones((2, 3)))


def test_tensors_and_arrays_go_the_same_way():
    graph = _graph()
    x, y = np.arange(6.0, dtype="f4").reshape(2, 3), np.ones((2, 3), "f4")
    tensors = runner(graph, TENSORS)([fx.asarray(x), fx.asarray(y)])
    arrays = runner(graph, ARRAYS)([x, y])
    assert {type(a) for a in arrays} == {np.ndarray}
    for t, a in zip(tensors, arrays, strict=True):
        assert (t.dtype, t.shape) == (a.dtype, a.shape)
        np.testing.assert_array_equal(t.numpy(), a)


def test_nothing_is_kept_after_its_last_use():
    class Thing:
        pass

    def kernel(primitive):
        def run(*args, **params):
            gc.collect()
            most.append(len([r for r in alive if r() is not None]))
            thing = Thing()
            alive.append(weakref.ref(thing))
            return thing

        return run

    most, alive = [], []
    graph = fx.make_graph(lambda x: x.sin().cos().exp().sin().cos())(fx.ones(3))
    begun = Thing()
    runner(graph, Values(kernel, lambda value: Thing()))([begun])
    assert len(most) == len(graph.nodes) == 5
    assert max(most) <= 2  # what a node reads, and what the one before it gave


def test_methods_of_small_classes_are_fx_code():
    """jit does not look into them, and no traceback of a user shows them."""
    assert is_internal(Sample.__init__.__code__.co_filename)
