"""The benchmark harness: turns, ratios, the table and its place in the README."""

import re
from collections import Counter

import numpy as np
import pytest

from benchmarks import called
from benchmarks.__main__ import BEGIN, CASES, END, chosen, written
from benchmarks.harness import ON_REQUEST, Case, measure, prepared, rows, shown
from tests.thorough import THOROUGH


def test_candidates_take_turns_and_ratios_are_those_of_a_round():
    order = []

    def candidate(name, times):
        def sample():
            order.append(name)
            return times[order.count(name) - 1]

        return lambda: sample

    case = Case(
        "case",
        "a case",
        samples={
            "fx": candidate("fx", [1.0, 9.0, 2.0]),
            "torch": candidate("torch", [2.0, 10.0, 8.0]),
        },
        per=2,
    )
    result = measure(case, 3)
    assert order == ["fx", "torch", "torch", "fx", "fx", "torch"]
    assert result.ratios == {"torch": 0.5}
    assert result.seconds == {"fx": 1.0, "torch": 4.0}
    assert list(rows([result]))[2] == "| a case | 1.00 s | 4.00 s | 0.50 |  |  |"


def test_work_is_repeated_until_it_can_be_measured():
    calls = Counter()

    def setup():
        return lambda: calls.update(["run"])

    samples = prepared(Case("case", "a case", {"fx": setup}))
    before = calls["run"]
    seconds = samples["fx"]()
    assert calls["run"] - before > 100
    assert 0 < seconds < 1e-3


def test_a_peer_that_is_not_installed_is_left_out_and_other_failures_are_not():
    def missing():
        raise ModuleNotFoundError("no torch", name="torch")

    case = Case("case", "a case", {"fx": lambda: int, "torch": missing})
    assert list(prepared(case)) == ["fx"]
    with pytest.raises(ModuleNotFoundError):
        prepared(Case("case", "a case", {"fx": missing}))


def test_what_gives_something_else_is_not_timed():
    setups = {"fx": lambda: lambda: 1.0, "torch": lambda: lambda: 1.1}
    prepared(Case("case", "a case", setups))
    with pytest.raises(AssertionError, match=r"case: fx and torch differ by 9.1e-02"):
        prepared(Case("case", "a case", setups, alike=lambda x: [np.array([x])]))


SCRIPT = """
import torch
import torch.nn as nn
x = torch.zeros(3)
layer = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.MSELoss())
n = 2 + 3
names = [str(i) for i in range(n)]
first = names[0]
y = x[0] * 2 + layer(x).add(n)
y[1] = x.shape[0]
y += x
z = torch.relu(y.t())
for part in z:
    print(part.item(), n * n)
"""


def test_calls_are_counted_of_tensors_alone_and_by_operation():
    assert called.of(SCRIPT) == {
        "zeros": 1, "linear": 1, "batch_norm": 1, "mse_loss": 1, "indexing": 1,
        "multiplication": 1, "addition": 2, "shape": 1, "assignment": 1, "in-place addition": 1,
        "relu": 1, "transpose": 1, "item": 1,
    }  # fmt: skip
    shares = dict(called.most())
    assert len(shares) == called.MOST and sorted(shares.values(), reverse=True) == [
        *shares.values()
    ]


def test_names_and_readme():
    assert len({case.name for case in CASES}) == len(CASES)
    asked = [case for case in CASES if case.table in ON_REQUEST]
    assert asked and asked == chosen(["tiny_", "writes_", "stack_", "loop_"])
    assert chosen([]) == [case for case in CASES if case not in asked]
    titles = {case.title for case in asked if case.table == "often"}
    for name, share in called.most():
        assert {f"`{row}` ({share:.1%})" for row in called.ROWS[name]} <= titles
    assert [case.name for case in chosen(["chain"])] == ["chain_10k", "chain_100k"]
    with pytest.raises(SystemExit, match="no benchmark is called 'nothing'; there are add"):
        chosen(["nothing"])
    text = f"before {BEGIN} old {END} after"
    assert written(text, "new") == f"before {BEGIN}\n\nnew\n\n{END} after"
    with pytest.raises(SystemExit, match=r"README\.md has no place for the table"):
        written("nothing", "new")


@pytest.mark.parametrize(
    "seconds, words",
    [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (4.5e-4, "450 µs"), (8.7e-7, "0.87 µs")],
)
def test_times_have_three_digits(seconds, words):
    assert shown(seconds) == words


def met(case):
    """Whether the quick profile runs it: of stacks in each dtype, one kernel serves many sizes."""
    found = re.fullmatch(r"stack_.*?_(\d+(?:_double)?)", case.name)
    return THOROUGH or found is None or found[1] in ("4", "64", "16_double")


@pytest.mark.parametrize("case", [*filter(met, CASES)], ids=lambda case: case.name)
def test_fx_runs_every_case(case):
    if "fx" in case.setups and case.per < 100_000:
        case.setups["fx"]()()


def test_scripts_are_measured_by_the_step():
    scripts = pytest.importorskip("benchmarks.scripts")
    from tests.scripts import harness

    files = {p.stem for p in harness.HERE.glob("*.py") if "def main(" in p.read_text()}
    assert files == {name for name in scripts.OPTIONS if "/" not in name}
    seconds, steps = scripts.once("linear_regression", "fx")
    assert seconds > 0 and steps == 120  # two batches an epoch
