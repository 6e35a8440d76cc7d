"""The generator: seeds, states, call indices, threads, pickling."""

import copy
import pickle
import threading

import numpy as np
import pytest

import fx
from fx import random
from fx.errors import DTypeError, ShapeError


def same(x, y):
    return np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_a_seed_fixes_what_follows():
    fx.manual_seed(5)
    first = [fx.rand(3), fx.randn(2), fx.randint(10, (4,)), fx.randperm(7)]
    fx.manual_seed(5)
    again = [fx.rand(3), fx.randn(2), fx.randint(10, (4,)), fx.randperm(7)]
    assert all(same(a, b) for a, b in zip(first, again))
    fx.manual_seed(6)
    assert not same(fx.rand(3), first[0])
    assert fx.initial_seed() == 6
    assert random.manual_seed(-1).initial_seed() == 2**64 - 1


def test_each_draw_takes_the_next_call_index():
    generator = fx.manual_seed(9)
    keys = [np.asarray(random.next_key()).tolist() for _ in range(3)]
    assert keys == [[9, 0, 0, i, 0, 0] for i in range(3)]
    assert np.asarray(fx.get_rng_state()).tolist() == [9, 0, 0, 3, 0, 0]
    generator.set_state(fx.tensor([9, 0, 0, 2**32 - 1, 0, 0], dtype=fx.uint32))
    random.next_key()
    assert np.asarray(generator.get_state()).tolist() == [9, 0, 1, 0, 0, 0]


def test_a_draw_is_the_keyed_draw():
    for stateful, keyed in (
        (lambda g: fx.rand(3, 2, generator=g), lambda k: random.uniform(k, (3, 2))),
        (lambda g: fx.randn(5, generator=g), lambda k: random.normal(k, 5)),
        (lambda g: fx.randint(3, 9, (5,), generator=g), lambda k: random.randint(k, 5, 3, 9)),
        (lambda g: fx.randperm(9, generator=g), lambda k: random.permutation(k, 9)),
    ):
        key = random.next_key(fx.Generator().manual_seed(3))
        assert same(stateful(fx.Generator().manual_seed(3)), keyed(key))


def test_states():
    fx.manual_seed(1)
    fx.rand(3)
    state = fx.get_rng_state()
    x = fx.rand(3)
    fx.set_rng_state(state)
    assert same(fx.rand(3), x)
    fx.set_rng_state(state)
    with random.fork_rng():
        assert same(fx.rand(3), x)
    assert same(fx.get_rng_state(), state)
    with random.fork_rng(enabled=False):
        fx.rand(3)
    assert not same(fx.get_rng_state(), state)


def test_fresh_seeds_differ():
    assert len({fx.seed() for _ in range(4)}) == 4
    generator = fx.Generator()
    assert generator.seed() == generator.initial_seed()
    assert fx.Generator().initial_seed() == 67280421310721


def test_copies_and_pickles_keep_the_state():
    generator = fx.Generator().manual_seed(4)
    fx.rand(2, generator=generator)
    others = [
        generator.clone_state(),
        copy.deepcopy(generator),
        pickle.loads(pickle.dumps(generator)),
    ]
    x = fx.rand(2, generator=generator)
    for other in others:
        assert other is not generator
        assert same(fx.rand(2, generator=other), x)


def test_using_is_for_this_thread_and_this_block():
    mine = fx.Generator().manual_seed(1)
    seen = []
    with random.using(mine) as inside:
        assert inside is mine
        assert random.current_generator() is mine
        thread = threading.Thread(target=lambda: seen.append(random.current_generator()))
        thread.start()
        thread.join()
    assert seen == [fx.default_generator]
    assert random.current_generator() is fx.default_generator


def test_threads_that_share_a_generator_never_share_a_key():
    generator = fx.Generator().manual_seed(2)
    found = [[] for _ in range(4)]

    def work(out):
        for _ in range(300):
            out.append(np.asarray(random.next_key(generator)).tobytes())

    threads = [threading.Thread(target=work, args=(out,)) for out in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({key for out in found for key in out}) == 1200
    assert np.asarray(generator.get_state())[3] == 1200


def test_threads_with_their_own_generators_draw_what_they_draw_alone():
    def work(seed, out):
        with random.using(fx.Generator().manual_seed(seed)):
            for _ in range(50):
                out.append(np.asarray(fx.randn(3)))
                out.append(np.asarray(fx.vmap(lambda x: x + fx.rand(2))(fx.zeros((3, 2)))))

    alone, together = [[] for _ in range(4)], [[] for _ in range(4)]
    for seed, out in enumerate(alone):
        work(seed, out)
    threads = [threading.Thread(target=work, args=(i, out)) for i, out in enumerate(together)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(a, b) for x, y in zip(alone, together) for a, b in zip(x, y, strict=True))


def test_the_device_of_a_generator():
    generator = fx.Generator(device="meta")
    assert fx.rand(3, generator=generator).device.name == "meta"
    assert fx.rand(3, generator=generator, device="cpu").device.name == "cpu"
    with fx.device("meta"):
        assert fx.randn(2).device.name == "meta"


def test_refusals():
    with pytest.raises(DTypeError, match=r"manual_seed: a seed is an integer, got 0\.5"):
        fx.manual_seed(0.5)
    with pytest.raises(ValueError, match="a seed lies in"):
        fx.manual_seed(1 << 64)
    with pytest.raises(ShapeError, match=r"a state is uint32 of shape \(6,\), got uint32 \(5,\)"):
        fx.set_rng_state(fx.zeros(5, dtype=fx.uint32))
    with pytest.raises(DTypeError, match=r"got float32 \(6,\); pass what generator.get_state\(\)"):
        fx.set_rng_state(fx.zeros(6))
    with pytest.raises(DTypeError, match=r"generator must be an fx\.Generator, got int"):
        fx.rand(3, generator=3)
