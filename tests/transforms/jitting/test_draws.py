"""Draws of Python's and NumPy's generators are inputs of a compiled call: the same ones, in order.

Programs that draw, branch on what they draw, compute with it and raise are made at random. A plain
and a jitted twin run each for several calls from the same states; results, errors and the states of
all generators are compared after each call.
"""

import random
import time
import warnings

import numpy as np
import pytest

import fx
from fx import limits
from tests.transforms.jitting.twins import Twin, expect_equal_twins

X = fx.tensor([1.0, -2.0, 3.0, 0.5])

PRELUDE = """
import math, random, time
import numpy as np
import fx
mine, rng, old = random.Random(5), np.random.default_rng(5), np.random.RandomState(5)
options, table = [0.5, 1.5, 2.5], {0: 1.0, 1: 2.0, 2: 3.0}
weight = fx.nn.Parameter(fx.tensor([0.5, 1.0, 1.5, 2.0]))
"""
NUMBERS = (
    "random.random()", "random.uniform(-1, {s})", "random.gauss(0, 1)", "random.randint(0, 3)",
    "random.choice(options)", "mine.random()", "mine.triangular(0, 1)", "rng.normal()",
    "rng.integers(5)", "float(rng.random())", "old.rand()", "np.random.beta(0.4, 0.4)",
    "np.random.uniform(low={s}, high=9)", "np.random.randint(4)", "random.randrange(2, 7)",
    "random.sample(range(9), 3)[1]", "np.random.choice([1.0, 2.0])", "random.expovariate(2.0)",
    "random.choices(options, k=2)[0]", "mine.getrandbits(3)", "rng.choice(3)",
)  # fmt: skip
ARRAYS = (
    "np.random.permutation(4)", "rng.permutation(4)", "np.random.randn(4)", "rng.random(4)",
    "old.randint(0, 4, size=4)", "np.random.rand(*x.shape)", "rng.integers(0, 4, 4)",
    "np.random.choice(4, 4, replace=False)", "rng.normal(size=4).astype('float32')",
)  # fmt: skip
OF_NUMBERS = (
    "{s} + {t}", "{s} * 0.5 - {t}", "-{s}", "abs({s})", "math.exp(-abs({s}))", "np.sqrt(abs({s}))",
    "max({s}, {t})", "min({s}, 0.5)", "round({s}, 2)", "float({s})", "np.clip({s}, -1, 1)",
    "{s} if {s} > {t} else 2.0", "{s} ** 2", "int({s})", "1.0 - {s}", "(lambda v: v / 3)({s})",
    "math.floor({s})", "np.maximum({s}, {t})",
)  # fmt: skip
OF_ARRAYS = (
    "{a} * 2", "{a}[::-1]", "np.sort({a})", "{a} + {s}", "{a}.astype('float64') - {a}.mean()",
    "np.argsort({a})", "{a} * (1 - {a})", "np.abs({a})",
)  # fmt: skip
TO_NUMBERS = ("{a}.sum()", "{a}[0]", "float({a}.max())", "np.mean({a})", "len({a})", "{a}[2] * 2")
TENSORS = (
    "y * {s}", "y + {s}", "{s} * y + (1 - {s}) * x", "y[np.argsort({a})]", "y * fx.asarray({a})",
    "y + fx.tensor({a}, dtype=fx.float32)", "y - fx.from_numpy({a}).sum()", "y.sin() * weight",
    "y * {a}.astype('float32')", "fx.where(y > {s}, y, x)", "y + fx.tensor([{s}, {t}]).sum()",
)  # fmt: skip
BRANCHES = (
    "random.random() < 0.5", "{s} > {t}", "rng.random() < 0.3", "int({s}) == 1",
    "np.random.rand() > 0.5",    "random.choice(['a', 'b']) == 'a'", "bool({s} < 1)",
)  # fmt: skip
QUESTIONS = ("y.sum() > 0", "float(y.max()) < 2.0", "(y < 0).any()")


class Writer:
    """Writes a function that draws."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = ["def f(x):", "    y, s0, a0 = x, 0.25, np.arange(4)"]
        self.numbers, self.arrays = 1, 1
        for _ in range(self.random.randrange(3, 9)):
            self.statement("    ", 2)
        self.lines.append(f"    return y, s{self.numbers - 1}, {self.some(['a0', self.array()])}")

    def some(self, options):
        return self.random.choice(options)

    def array(self):
        return f"a{self.random.randrange(self.arrays)}"

    def filled(self, text):
        given = {k: f"s{self.random.randrange(self.numbers)}" for k in "st"}
        return text.format(**given, a=self.array())

    def statement(self, indent, deep):
        kind = self.random.randrange(12)
        add = self.lines.append
        inner = indent != "    "  # what is bound in a branch is not read after it
        if kind < 3 or (kind < 9 and inner):
            if inner:
                add(f"{indent}y = y * {self.filled(self.some(NUMBERS))}")
            else:
                add(f"{indent}s{self.numbers} = {self.filled(self.some(NUMBERS))}")
                self.numbers += 1
        elif kind == 3:
            add(f"{indent}s{self.numbers} = {self.filled(self.some(OF_NUMBERS + TO_NUMBERS))}")
            self.numbers += 1
        elif kind < 6:
            source = ARRAYS if kind == 4 else OF_ARRAYS
            add(f"{indent}a{self.arrays} = {self.filled(self.some(source))}")
            self.arrays += 1
        elif kind < 9:
            add(f"{indent}y = {self.filled(self.some(TENSORS))}")
        elif kind == 9 and deep:
            add(f"{indent}if {self.filled(self.some(BRANCHES))}:")
            self.statement(indent + "    ", deep - 1)
            if self.random.random() < 0.5:
                add(f"{indent}else:")
                self.statement(indent + "    ", deep - 1)
        elif kind == 10 and deep:
            add(f"{indent}if {self.some(QUESTIONS)}:")
            self.statement(indent + "    ", deep - 1)
        elif deep and self.random.random() < 0.5:
            add(f"{indent}for _ in range({self.some(['2', 'random.randint(1, 2)'])}):")
            self.statement(indent + "    ", deep - 1)
        else:
            add(f"{indent}if random.random() < 0.1: raise LookupError('drawn')")

    def text(self):
        return "\n".join(self.lines)


def state(twin):
    names = twin.names
    found = [*twin.states, names["mine"].getstate(), names["old"].get_state()]
    return str([*found, names["rng"].bit_generator.state])


def run_twins(text, calls, strict=False):
    plain, jitted = Twin(PRELUDE + text), Twin(PRELUDE + text, fx.jit)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "ignore", RuntimeWarning)
        for i in range(calls):
            x = X * (i % 3 - 0.5)
            want, got = plain(x), jitted(x)
            expect_equal_twins(want, got)
            assert state(jitted) == state(plain), text
    return jitted.f


@pytest.mark.parametrize("seed", range(60))
def test_programs_that_draw(seed):
    run_twins(Writer(seed).text(), 5)


# steps as scripts have them -----------------------------------------------------------------------

STEPS = """
model = fx.nn.Sequential(fx.nn.Linear(4, 8), fx.nn.Tanh(), fx.nn.Linear(8, 4))
optimizer = fx.optim.Adam(model.parameters(), lr=0.01)

def train(x, mixed):
    optimizer.zero_grad()
    loss = ((model(mixed) - x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss

def mixup(x):
    lam = np.random.beta(0.4, 0.4)
    index = np.random.permutation(x.shape[0])
    return train(x, lam * x + (1 - lam) * x[index])

def cutmix(x):
    lam = np.random.beta(1.0, 1.0)
    rate = np.sqrt(1.0 - lam)
    center = np.random.randint(100)
    low, high = np.clip(center - 50 * rate, 0, 100), np.clip(center + 50 * rate, 0, 100)
    return train(x, x * (1 - (high - low) / 100))

def forcing(x):
    h = x * 0
    forced = True if random.random() < 0.5 else False
    for t in range(3):
        h = model(x if forced else h)
    return train(x, h.detach())

def noisy(x):
    noise = fx.from_numpy(np.random.randn(*x.shape)).to(fx.float32)
    return train(x, x + 0.1 * noise + random.gauss(0, 0.01))

def explore(x):
    if random.random() < 0.4:
        return fx.tensor(random.randrange(4))
    return model(x[0]).argmax()

def shuffled(x):
    order = list(range(8))
    random.shuffle(order)
    return train(x, x * fx.tensor([order[0], order[7], order[3], order[2]], dtype=fx.float32))

def seeded(x):
    random.seed(3)
    np.random.seed(4)
    return x * random.random() + np.random.rand()

def chosen(x):
    kind = random.choice(["tanh", "sin"])
    return train(x, x.tanh() if kind == "tanh" else x.sin())

def dropped(x):
    for layer in model:
        kept = rng.random() > 0.2 or not isinstance(layer, fx.nn.Tanh)
        x = layer(x) if kept else x * 0.5
    return x

def sampled(x):
    return train(x, x[np.random.choice(6, size=6, replace=True)])
"""


def steps_of(name, wrap):
    fx.manual_seed(0)
    text = STEPS + f"\nf = {name}\n"
    return Twin(PRELUDE + text, wrap)


@pytest.mark.parametrize(
    "name",
    ["mixup", "cutmix", "forcing", "noisy", "explore", "shuffled", "seeded", "chosen", "dropped",
     "sampled"],
)  # fmt: skip
def test_steps_of_scripts_stay_compiled(name):
    plain, jitted = steps_of(name, lambda f: f), steps_of(name, fx.jit)
    x = fx.tensor(np.random.default_rng(0).standard_normal((6, 4)).astype("float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for _ in range(10):
            expect_equal_twins(plain(x), jitted(x))
            assert state(jitted) == state(plain)
    expect_equal_twins(plain.names["model"].state_dict(), jitted.names["model"].state_dict())
    assert jitted.f.cache_size() <= 4 and (name == "dropped" or jitted.f.plans)


def test_another_branch_draws_the_same_numbers():
    """A plan that does not serve has drawn; the one that does draws the same again."""
    text = """
def f(x):
    a = random.random()
    if a < 0.5:
        return x * a * rng.random()
    if np.random.rand() < 0.5:
        return x + a + old.rand()
    return x - a - mine.random()
"""
    jitted = run_twins(text, 40, strict=True)
    assert len(jitted.plans) == 3


def test_an_error_that_a_draw_leads_to_comes_again():
    """What the function has drawn before it raises is drawn, as eagerly."""
    run_twins(
        "\ndef f(x):\n    if random.random() < 0.3: raise LookupError('a')\n    return x\n", 30
    )
    run_twins(
        """
def f(x):
    a = np.random.rand()
    try:
        return x * random.randint(0, int(4 * a) - 1)
    except ValueError:
        return x - rng.random()
""",
        12,
    )


def test_what_runs_uncompiled_after_all_draws_once():
    text = """
def f(x):
    a = random.random()
    b = np.random.rand()
    return x * a * b * len(list(map(random.uniform, [0], [1])))
"""
    run_twins(text, 3)
    text = """
def f(x):
    a = random.random()
    return x * a if a < 0.5 else x * next(count)
"""
    run_twins("\nimport itertools\ncount = itertools.count(1)\n" + text, 12)


def test_too_many_branches_run_uncompiled_with_the_same_draws():
    text = """
def f(x):
    for t in range(9):
        x = x * 0.9 if random.random() < 0.5 else x + rng.random()
    return x
"""
    with limits.tiny():
        run_twins(text, 12)


def test_a_generator_is_one_that_the_function_reads():
    """Another object under its name is noticed, and one that is an argument is drawn from."""

    class Holder:
        pass

    plain, jitted, holder = Holder(), Holder(), Holder()

    def make(held, wrap):
        return wrap(lambda x, rng: x * held.rng.normal() + rng.random() + holder.k.random())

    f, g = make(plain, lambda f: f), make(jitted, fx.jit)
    for seed in (0, 0, 1, 1):
        found = []
        for held, h in ((plain, f), (jitted, g)):
            held.rng = np.random.default_rng(seed)
            holder.k = random.Random(seed)
            given = np.random.default_rng(seed + 5)
            found.append([h(X, given) for _ in range(3)])
        expect_equal_twins(*found)


def test_where_compiled_code_raises_what_is_handled_the_numbers_are_drawn_once():
    mine = random.Random(5)

    def f(x, i):
        drawn = mine.random()
        try:
            return fx.take(x, i, axis=0) * drawn
        except IndexError:
            return x.sum() * drawn

    told = []
    for call in (f, fx.jit(f)):
        mine.seed(5)
        told.append([float(call(X, fx.tensor(i))) for i in (0, 1, 2, 9, 1, 9)])
    assert told[0] == told[1]


def test_arrays_that_their_text_does_not_tell_apart_are_two():
    """What is done with a draw is done once, but by the same arguments only: in lists, by name."""
    near = [np.full(2, 0.5), np.full(2, 0.5 + 1e-10)]
    long = [np.zeros(2000), np.repeat([0.0, 1.0, 0.0], (900, 200, 900))]
    applied = [
        lambda d, a: d + a,
        lambda d, a: np.concatenate([d, a]),
        lambda d, a: np.stack([d + a, a]),
        lambda d, a: np.sum(d + a, where=a > 0.5),
    ]
    rng = np.random.default_rng(0)

    def f(x):
        drawn = rng.random(1)
        cases = [apply(drawn, a) for apply in applied for pair in (near, long) for a in pair]
        return x, [fx.tensor(case) for case in cases]

    jitted, x = fx.jit(f), fx.tensor(0.0)
    got = [jitted(x)[1] for _ in range(2)]
    assert jitted.cache_size() == 1
    rng = np.random.default_rng(0)
    for outs, wants in zip(got, [f(x)[1] for _ in range(2)], strict=True):
        for out, want in zip(outs, wants, strict=True):
            np.testing.assert_array_equal(out, want)


def test_draws_inside_of_other_transforms_and_functions():
    text = """
inner = fx.jit(lambda x: x * random.random())
def f(x):
    y = inner(x) + inner(x) * rng.random()
    y = y + fx.grad(lambda z: (z * z * np.random.rand()).sum())(x)
    y = y + fx.vmap(lambda z: z * random.random())(x)
    return y + fx.checkpoint(lambda z: z.sin() * rng.random())(x)
"""
    assert run_twins(text, 5, strict=True).plans


@pytest.mark.parametrize(
    "text",
    [
        "fx.fori_loop(0, 3, lambda i, y: y * random.random() + i, x)",
        "fx.cond(x.sum() > 0, lambda y: y * random.random(), lambda y: y - rng.random(), x)",
        "fx.scan(lambda c, e: (c + e * np.random.rand(), c), x[0], x)[1]",
    ],
)
def test_draws_in_bodies_run_uncompiled(text):
    run_twins(f"\ndef f(x):\n    return {text}\n", 4)


def test_a_jitted_function_under_transforms_draws_as_plain_ones():
    text = """
g = WRAP(lambda x: (x * random.random()).sum() + rng.normal())
def f(x):
    first = g(x)
    return first, fx.grad(g)(x), fx.vmap(lambda z: g(z))(x)
"""
    found = []
    for wrap in (lambda f: f, fx.jit):
        twin = Twin(PRELUDE + "\nWRAP = lambda f: f\n" + text)
        twin.names["g"] = wrap(twin.names["g"].__wrapped__ if wrap is None else twin.names["g"])
        found.append([([twin(X) for _ in range(4)]), state(twin)])
    expect_equal_twins(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_a_checked_call_draws_what_the_other_does():
    f = fx.jit(lambda x: x * random.random() + np.random.rand(4), check=True)
    for _ in range(4):
        f(X)


def test_the_seed_of_one_call_is_that_of_the_next():
    """Draws of calls follow each other, and what is drawn in between counts."""
    f = fx.jit(lambda x: x[0] * 0 + fx.asarray(random.random(), dtype=fx.float64))
    random.seed(11)
    found = [float(f(X)) if i % 2 else random.random() for i in range(8)]
    random.seed(11)
    assert found == [random.random() for _ in range(8)]


# clocks -------------------------------------------------------------------------------------------


def test_a_clock_is_read_in_each_call_and_branched_on():
    start = time.perf_counter()

    @fx.jit
    def f(x):
        passed = time.perf_counter() - start
        y = x * passed
        return y + (time.perf_counter() - start), passed, passed < 0.2

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        last = 0.0
        for i in range(12):
            before = time.perf_counter() - start
            y, passed, early = f(X)
            after = time.perf_counter() - start
            assert last < before <= passed <= after and early is (passed < 0.2)
            assert 2 * before - 1e-4 <= y[0].item() <= 2 * after + 1e-4
            last = passed
            time.sleep(0.03 if i > 3 else 0)


def test_the_value_of_a_clock_makes_it_run_uncompiled_at_once(capsys):
    """Print it outside: no two calls would have the same program."""

    @fx.jit
    def f(x):
        print(f"{time.time():.3f}")
        return x

    with pytest.warns(RuntimeWarning, match="asks for the value of the clock .*py:[0-9]+") as told:
        for _ in range(3):
            f(X)
            time.sleep(0.002)
    assert len(told) == 1 and len(set(capsys.readouterr().out.split())) == 3
