"""Changes of Python's state are made in every call of a compiled function, as a plain one does.

Programs that append, store, count, draw, branch and raise are made at random. A plain and a jitted
twin run each for several calls; results, errors and all that they may change are compared after
each. Between calls somebody else changes some of it, too.
"""

import random
import signal
import types
import warnings

import pytest

import fx
from tests.transforms.jitting.twins import Twin, expect_equal_twins

X = fx.tensor([1.0, -2.0, 3.0, 0.5])

PRELUDE = """
import random
import numpy as np
import fx

class Holder:
    def __init__(self):
        self.last, self.n, self.rate, self.items, self.word = None, 0, 0.5, [], "a"

    def note(self, value):
        self.last = value
        self.items.append(value)

class Layer(fx.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = fx.nn.Parameter(fx.ones(4))
        self.seen = None
        self.steps = 0

    def forward(self, x):
        self.seen = x * 2
        self.steps += 1
        return x * self.w

holder, layer = Holder(), Layer()
optimizer = fx.optim.SGD(layer.parameters(), lr=0.01)
log, table, names, total, calls, latest = [], {"n": 0, "a": 1.5}, {}, 0.0, 0, None

def make():
    count, kept = 0, None
    def f(x, p):
        nonlocal count, kept
        global total, calls, latest
        y, s = x, 2.0
BODY
        return y, s
    f.state = lambda: (count, kept)
    return f

f = make()

def state():
    held = dict(vars(holder))
    return [log, table, names, total, calls, latest, held, f.state(), layer.seen, layer.steps,
            layer.w.detach()]
"""
WRITES = (
    "log.append({v})", "log.extend([{v}, {v}])", "table['a'] = {v}", "table['new'] = {v}",
    "names[{k}] = {v}", "holder.last = {v}", "holder.word = 'b'", "holder.note({v})",
    "holder.items.append({v})", "kept = {v}", "latest = {v}", "p['w'] = {t}",
    "holder.pair = (y, {v})",
    "log.append({{'y': {t}, 's': {v}}})", "names.update(z={v})", "holder.other = {v}",
    "log.append([{v}, {t}])", "names['keys'] = (1, 'a')", "holder.word = 'a'",
    "log.append(x)", "names['item'] = y.shape",
)  # fmt: skip
COUNTERS = (
    "holder.n += 1", "count += 1", "calls += 1", "total = total + 0.5", "table['n'] += 2",
    "holder.rate *= 0.9", "holder.rate = 0.9 * holder.rate + 0.1 * s", "y = layer(y)",
    "holder.n = holder.n * 2 + 1", "total += s",
)  # fmt: skip
OF_STATE = (
    "y = y * holder.rate", "s = s + count", "s = holder.n * 0.5", "y = y + total",
    "s = table['n'] - s", "y = y * calls", "s = holder.n + calls + count", "s = len(x) + holder.n",
    "y = y + p['w'].sum()",
)  # fmt: skip
BRANCHES = (
    "holder.n % 2 == 0", "count > 2", "s > 1.5", "total < 1", "random.random() < 0.5", "calls % 3",
    "y.sum() > 0", "holder.rate < 0.4",
)  # fmt: skip
VALUES = ("y", "y.sum()", "s", "x * 2", "3", "'word'", "None", "(y, s)", "y.sum().detach()")
OTHERS = (  # what comes in between
    "log.clear()", "holder.last = 5", "holder.n = 7", "table['n'] = 1", "holder.word = 'c'",
    "names.clear()", "holder.rate = 2.0", "table['a'] = 0", "holder.items = []", "log = []",
    "calls = 0",
)  # fmt: skip


class Writer:
    """Writes the body of a function that changes state."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        for _ in range(self.random.randrange(2, 8)):
            self.statement("        ", 2)
        self.body = "\n".join(self.lines)
        self.others = [self.some(OTHERS) if self.random.random() < 0.3 else "" for _ in range(8)]

    def some(self, options):
        return self.random.choice(options)

    def filled(self, text):
        return text.format(
            v=self.some(VALUES), t=self.some(["y", "y + 1", "x"]), k=self.some([1, "'k'"])
        )

    def statement(self, indent, deep):
        kind = self.random.randrange(14)
        add = self.lines.append
        if kind < 5:
            add(indent + self.filled(self.some(WRITES)))
        elif kind < 8:
            add(indent + self.some(COUNTERS))
        elif kind < 10:
            add(indent + self.some(OF_STATE))
        elif kind == 10:
            add(
                indent
                + self.some(["y = y.sin()", "s = s * random.random()", "y = y * np.random.rand()"])
            )
        elif kind == 11 and deep:
            add(f"{indent}if {self.some(BRANCHES)}:")
            self.statement(indent + "    ", deep - 1)
        elif kind == 12 and not self.random.randrange(3) and "optimizer" not in "".join(self.lines):
            add(
                f"{indent}if {self.some(['random.random() < 0.2', 'count == 3', 'holder.n == 2'])}:"
            )
            add(f"{indent}    raise LookupError('half')")
        else:
            add(f"{indent}optimizer.zero_grad()")
            add(f"{indent}loss = ((x * layer.w - s) ** 2).sum()")
            add(f"{indent}loss.backward()")
            add(f"{indent}optimizer.step()")
            then = ["log.append(loss)", "holder.last = loss", "y = y + loss.detach()"]
            add(indent + self.some(then))


def state(twin):
    return twin.names["state"](), str(twin.states)


def plain_values(x):
    """What is compared: a tensor that may have a graph without it."""
    if isinstance(x, fx.Tensor):
        return x.detach()
    if isinstance(x, dict):
        return {k: plain_values(v) for k, v in x.items()}
    return type(x)(map(plain_values, x)) if type(x) in (list, tuple) else x


def run_twins(body, others=(), calls=6, strict=False):
    text = PRELUDE.replace("BODY", body)
    plain, jitted = Twin(text), Twin(text, fx.jit)
    given = [{"w": X, "v": 1.0}, {"w": X, "v": 1.0}]
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "ignore", RuntimeWarning)
        for i in range(calls):
            x = X * (i % 3 - 0.5)
            want, got = plain(x, given[0]), jitted(x, given[1])
            expect_equal_twins(plain_values(want), plain_values(got), f"call {i} of\n{body}\n")
            expect_equal_twins(plain_values(state(plain)), plain_values(state(jitted)), body)
            expect_equal_twins(*map(plain_values, given))
            for twin in (plain, jitted):
                twin.change(others[i] if i < len(others) else "")
            expect_equal_twins(plain_values(state(plain)), plain_values(state(jitted)), body)
    return jitted


@pytest.mark.parametrize("seed", range(80))
def test_programs_that_change_state(seed):
    writer = Writer(seed)
    run_twins(writer.body, writer.others)


@pytest.mark.parametrize("write", [w for w in WRITES if "{v}" in w and "update" not in w])
@pytest.mark.parametrize("value", VALUES)
def test_what_is_put_somewhere_stays_compiled(write, value):
    line = write.format(v=value, t="y + 1", k="(1, 'a')")
    jitted = run_twins(f"        y = y.cos()\n        {line}", calls=4, strict=True)
    assert jitted.f.cache_size() == 1 and jitted.f.plans


@pytest.mark.parametrize("counter", COUNTERS)
def test_counters_are_inputs(counter):
    others = ["", "", "holder.n = 7; calls = 3; table['n'] = 2; layer.steps = 9; total = 4.0", ""]
    body = f"        {counter}\n        y = y * (s + holder.n + calls + count + total)"
    for given, programs in (((), 1), (others, 2)):
        jitted = run_twins(body, given, calls=8, strict=True)
        assert jitted.f.cache_size() <= programs and (jitted.f.plans or "layer" in counter)


def test_a_counter_that_is_branched_on():
    body = """
        holder.n += 1
        if holder.n % 3 == 0:
            y = y * 2
            log.append(holder.n)
        if count < 2:
            count += 1
        calls = calls + 1 if holder.n > 4 else calls
        s = int(holder.n / 4) + max(holder.n, 2)
"""
    jitted = run_twins(body, calls=14, strict=True)
    assert jitted.f.cache_size() <= 8


def test_a_counter_of_another_type_and_one_that_is_gone():
    others = ["", "holder.n = 1.5", "", "del holder.n", "holder.n = 3", "", "holder.n = True", ""]
    body = "        holder.n = getattr(holder, 'n', 10) + 1"
    run_twins(body, others, calls=9)


def test_counters_of_another_object_under_the_name():
    others = ["", "", "holder = Holder()", "", "table = {'n': 5, 'a': 1}", ""]
    run_twins(
        "        holder.n += 1\n        table['n'] += holder.n\n        y = y * table['n']", others
    )


def test_a_counter_that_another_function_reads():
    """Both are compiled: what one changes is noticed by the other."""
    found = []
    for wrap in (lambda f: f, fx.jit):
        names = {"__name__": "a_module"}
        exec(PRELUDE.replace("BODY", "        pass"), names)
        layer, holder = names["layer"], names["holder"]

        def step(x, layer=layer, holder=holder):
            holder.n += 1
            return layer(x) * holder.n

        def look(x, layer=layer, holder=holder):
            return x * layer.steps + holder.n

        step, look = wrap(step), wrap(look)
        found.append([(step(X).detach(), look(X)) for _ in range(6)])
    expect_equal_twins(*found)


def test_what_raises_after_it_has_counted_has_counted():
    run_twins(
        """
        holder.n += 1
        log.append(holder.n)
        if holder.n % 3 == 0:
            raise LookupError('third')
        y = y * holder.n
""",
        calls=10,
        strict=True,
    )


def test_an_optimizer_step_that_counts_is_one_program():
    body = """
        optimizer.zero_grad()
        loss = ((x * layer.w - 1) ** 2).sum()
        loss.backward()
        optimizer.step()
        log.append(loss)
        calls += 1
        total = 0.9 * total + calls
        table['a'] = loss.detach() * total
"""
    jitted = run_twins(body, calls=8, strict=True)
    assert jitted.f.cache_size() == 1 and jitted.f.plans


def test_a_store_of_the_same_value_is_made_again():
    """Somebody may have changed it in between."""
    run_twins("        holder.word = 'a'", ["holder.word = 'b'"] * 6, strict=True)
    for statement, other in (
        ("table['n'] = 0", "table['n'] = 1"),
        ("calls = 0", "calls = 3"),
        ("latest = None", "latest = 'b'"),
        ("s = table['n']; table['a'] = 3", "table['a'] = 0"),
        ("y = y * holder.n; holder.n = 4", "holder.n = 1"),
        ("y = y * calls; calls = 2", "calls = 1"),
    ):
        run_twins(f"        {statement}", [other] * 6)


def test_another_list_under_the_name_gets_what_is_appended():
    others = ["log = []", "", "log = [1]", "holder.items = log", ""]
    jitted = run_twins("        log.append(y)\n        holder.items.append(y)", others, strict=True)
    assert jitted.f.cache_size() == 1


def test_a_list_that_is_looked_at_is_compared():
    run_twins("        log.append(y)\n        y = y * len(log)", calls=8)
    run_twins(
        "        log.append(y)\n        if count > 3: y = y * len(log)\n        count += 1", calls=8
    )


def test_one_object_in_two_places_is_one():
    twin = run_twins("        log.append(y)\n        holder.last = y", strict=True)
    assert twin.names["holder"].last is twin.names["log"][-1]
    twin = run_twins(
        "        names['a'] = [y]\n        holder.items = names['a']",
        ["", "holder.items.append(2)"],
    )
    assert twin.names["names"]["a"] is twin.names["holder"].items


def test_one_new_container_in_two_places_is_one():
    body = "        z = [y]\n        names['a'] = z\n        holder.items = z"
    run_twins(body, ["names['a'].append(5)"] * 6)
    run_twins(
        "        z = [y]\n        names['a'] = z\n        s = z", ["names['a'].append(5)"] * 6
    )


def test_the_warning_names_what_has_no_description():
    with pytest.raises(RuntimeWarning, match="it changes global `table`"):
        run_twins(
            "        log.append(y)\n        table.pop('a', 0)", ["table['a'] = 1"] * 6, strict=True
        )


def test_gradients_go_through_what_was_stored():
    """A loss that is kept before its backward pass has a graph, as eagerly."""
    for wrap in (lambda f: f, fx.jit):
        kept, w = [], fx.nn.Parameter(fx.ones(4))
        f = wrap(lambda x, kept=kept, w=w: kept.append((x * w).sum()))
        for _ in range(3):
            f(X)
        sum(kept).backward()
        assert w.grad.tolist() == (3 * X).tolist()


def test_inside_of_another_jitted_function_and_of_transforms():
    text = """
inner = fx.jit(lambda x: log.append(x.sum()) or x * 2)
def f(x):
    y = inner(x) + inner(x * 2)
    holder.last = y
    return y
"""
    found = []
    for wrap in (lambda f: f, fx.jit):
        names = {"__name__": "a_module"}
        exec(PRELUDE.replace("BODY", "        pass") + text, names)
        f, g = wrap(names["f"]), names["inner"]
        out = [f(X * i) for i in range(4)]
        out += [fx.vmap(g)(X), fx.grad(lambda x, g=g: g(x).sum())(X)]
        log = names["log"][:8]
        found.append((out, log, names["holder"].last))
    expect_equal_twins(*found)


# all or nothing -----------------------------------------------------------------------------------


class Stop(Exception):
    pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_signal_finds_a_step_and_its_stores_done_or_not(seed):
    """At random instants: weights, the list, the attribute and the dict agree with each other."""
    w = fx.nn.Parameter(fx.zeros(4))
    optimizer = fx.optim.SGD([w], lr=1.0)
    log, kept, holder = [], {"w": None}, types.SimpleNamespace(last=None)

    @fx.jit
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        log.append(w.detach() * 1)
        kept["w"] = w.detach() * 2
        holder.last = w.detach() * 3
        return loss

    x = fx.full((4,), -1.0)
    for _ in range(3):
        step(x)
    assert step.plans

    def stop(number, frame):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    instants = random.Random(seed)
    try:
        for _ in range(400):
            count = len(log)
            try:
                signal.setitimer(signal.ITIMER_REAL, instants.uniform(2e-6, 4e-5))
                for _ in range(20):
                    step(x)
            except Stop:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            now = w.detach()[0].item()
            assert len(log) == now and count <= now, (len(log), now)
            assert [log[-1][0].item(), kept["w"][0].item(), holder.last[0].item()] == [
                now, 2 * now, 3 * now
            ]  # fmt: skip
    finally:
        signal.signal(signal.SIGALRM, before)


# attributes that nothing held before ------------------------------------------------------------


class Box:
    pass


SETTERS = {
    "setattr": lambda box, x: setattr(box, "extra", 3),
    "state": lambda box, x: setattr(box, "state", 3),  # as optimizers have
    "object": lambda box, x: object.__setattr__(box, "extra", 3),
    "vars": lambda box, x: vars(box).update(state=3),
    "tensor": lambda box, x: setattr(box, "extra", x + 1),
    "counted": lambda box, x: setattr(box, "extra", getattr(box, "extra", 0) + 1),
}


@pytest.mark.parametrize("given", [False, True], ids=["outer", "argument"])
@pytest.mark.parametrize("name", SETTERS)
def test_new_attributes_of_objects(name, given):
    """Set in each call, also in one that finds them there, gone, or with another value."""

    def world(make):
        box, put = Box(), SETTERS[name]

        def step(x, b):
            put(b if given else box, x)
            return x * 2

        run, seen = make(step), []
        for between in (None, None, "clear", "change", None):
            if between == "clear":
                vars(box).clear()
            elif between == "change":
                box.extra, box.state = 7, 8
            out = run(X, box)
            held = {k: v.tolist() if isinstance(v, fx.Tensor) else v for k, v in vars(box).items()}
            seen.append((out.tolist(), held))
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert world(fx.jit) == world(lambda f: f)


def test_a_commit_says_when_it_is_done():
    """From then on nothing runs a step again, whatever error comes."""
    from fx.commit import Stores

    box, held = Box(), {}
    box.there = Box()
    stores = Stores()
    stores.put(held, "n", 1)
    stores.add(box, "there", 2)
    assert not stores.done
    assert stores.commit() and stores.done and (held, box.there) == ({"n": 1}, 2)
    refused = Stores()
    refused.add(box, "there", 3)
    assert not refused.commit(refused=int) and not refused.done and box.there == 2
