"""Programs that the fuzzer found, as it printed them: each stays for ever."""

import math

import fx
from fx import limits
from fx.testing.fuzz import compare, training, values


def test_bits_of_a_number():
    x = values.tensor((2, 3), "float32", 1)

    def f(x, n0):
        v0 = n0 | n0
        v1 = n0 & 6
        v2 = n0 >> 1
        v3 = n0.bit_length()
        return [v0, v1, v2, v3, x * v0]

    compare.calls(f, (x, 2), (x, 7), (x, 2**40))


def test_the_class_of_a_number():
    x = values.tensor((2, 3), "float32", 1)

    def f(x, n0):
        v4 = isinstance(n0, int)
        return [v4, math.isnan(n0)]

    compare.calls(f, (x, 2), (x, 2.0), (x, True))


def test_a_product_under_tiny_limits_ends():
    from fx.testing.fuzz import derived

    x0 = values.tensor((3, 3), "float64", 98, "steps") + 0.0625

    with limits.tiny():

        def f(x):
            v1 = x @ x.T
            v3 = v1.at[0].set(0.5)
            v4 = fx.concat([v3, v3], axis=0)
            return fx.mean(v4)

        derived.check(f, x0, "vg")


def test_an_interrupt_leaves_grad_mode_as_it_was():
    def layers():
        return [fx.nn.Linear(64, 64)]

    def optimizer(p):
        return fx.optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True)

    for seed in range(3):
        training.interrupted(layers, optimizer, "backward", seed, hits=40)


def test_state_that_a_function_counts_up():
    def world():
        def f(x):
            f.count += 1
            return [x * f.count]

        f.count = 0

        def change(turn):
            if turn == 2:
                f.count = 9

        return f, change, lambda: [f.count]

    compare.worlds(world, 4)


def test_an_attribute_of_an_attribute_that_is_written():
    class Point:
        y = 2

    def world():
        count, box = 0, Point()
        box.inner = Point()

        def f(x):
            nonlocal count
            box.inner.y = count
            count += 1
            return [x + box.inner.y]

        return f, lambda turn: None, lambda: [count, box.inner.y]

    compare.worlds(world, 4)


def test_a_number_that_does_not_fit_is_not_written():
    x = values.tensor((4,), "uint8", 7)

    def f(x, n0):
        return [x.at[0].set(n0), x.at[1].add(n0)]

    compare.calls(f, (x, 3), (x, -129), (x, 255), (x, 256), (x, 2.5), (x, True))


def test_a_range_of_a_fraction():
    x = values.tensor((4,), "float32", 1)

    def f(x, n0):
        return [fx.arange(abs(n0) % 6)]

    compare.calls(f, (x, 0.5), (x, 5), (x, 1e308), (x, 3.5))
