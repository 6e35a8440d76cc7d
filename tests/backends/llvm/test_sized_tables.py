"""Tables of programs for any size: what is no formula is refused, and a bad entry is made again."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm import disk_cache, driver, stored
from fx.backends.cpu.llvm.sized import tables
from tests.backends.llvm.test_disk_cache import compiled, folder  # noqa: F401

WHOLE = {
    "names": ["a", "b"], "told": ["8*a", "-1*(-8*a // (32))"], "tasks": [2], "rates": [0.5],
    "elements": ["a*b"], "traffic": [0.0], "fixed": 3.0,
    "products": [[[["a", "3"], ["12", "4"]], [["3", "b"], ["4*b", "4"]], [], 4]],
    "arena": [[0, "64*a"], [1, "max(64, 4*b)"], [0, None]], "shapes": [["a", "b"], []],
}  # fmt: skip


def test_what_was_told_comes_back():
    assert tables.to_json(tables.from_json(copy.deepcopy(WHOLE))) == WHOLE
    assert json.loads(json.dumps(WHOLE)) == WHOLE


BAD = [
    ("names", ["a", "a"]), ("names", ["a b"]), ("names", [1]), ("told", ["8 *"]), ("told", [8]),
    ("tasks", [4]), ("tasks", [-1]), ("tasks", [True]), ("rates", []), ("rates", ["1"]),
    ("elements", []), ("traffic", [0]), ("fixed", None), ("products", [[]]),
    ("products", [[[["a"], ["4"]], [["a"], ["4"]], [], 4]]),
    ("products", [[[["a", "3"], ["4"]], [["3", "b"], ["4*b", "4"]], [], 4]]),
    ("products", [[[["a", "3"], ["12", "4"]], [["3", "b"], ["4*b", "4"]], [], 1 << 40]]),
    ("arena", [[0, None]]), ("arena", [[0, "a"], [0, "a"]]), ("arena", [["0", "a"]]),
    ("shapes", [[1]]), ("shapes", "a"), ("more", 1),
]  # fmt: skip


@pytest.mark.parametrize("name, value", BAD)
def test_other_tables_are_refused(name, value):
    with pytest.raises(ValueError):
        tables.from_json({**copy.deepcopy(WHOLE), name: value})


@pytest.mark.parametrize("text", [
    "__import__('os')", "a.real", "a ** 9", "[a for a in b]", "(lambda: a)()", "a if b else a",
    "c", "1.5", "'a'", "a, b], [a", "print(a)", "max.__self__", "a @ b", "(a := 3)", "*a",
])  # fmt: skip
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(ValueError):
        tables.function(["a", "b"], ["a", text])


def test_formulas_are_computed():
    f = tables.function(["a", "b"], ["8*a", "-1*(-8*a // (32))", "max(64, 4*b) + -1*a"])
    assert f(5, 30) == [40, 2, 115]


CHANGES = {
    "without tables": lambda head: head.pop("tables"),
    "other tables": lambda head: head["tables"]["told"].append("a.real"),
    "words of none": lambda head: head["recipe"]["segments"][0]["part"].update(words=None),
    "words that are not there": lambda head: head["recipe"]["segments"][0]["part"].update(words=9),
    "shapes of others": lambda head: head["tables"]["shapes"].append(["a"]),
    "other inputs": lambda head: head["recipe"].update(inputs=2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_entry_that_does_not_fit_is_made_again(folder, compiled, monkeypatch, change):  # noqa: F811
    kept, keep = [], disk_cache.store
    monkeypatch.setattr(
        disk_cache, "store", lambda name, head, *rest: (kept.append(name), keep(name, head, *rest))
    )

    def run(number):
        driver.forget()
        compiled.clear()
        name = f"x{number}_{[*CHANGES].index(change)}"  # programs of its own, of one graph
        f = fx.jit(eval(f"lambda {name}: ({name} * {name}).sum() + 0.5"))
        for n in (40, 50, 60):
            x = np.random.default_rng(n).normal(size=n).astype("f")
            np.testing.assert_allclose(float(f(fx.tensor(x))), (x * x).sum() + 0.5, rtol=1e-5)
        return len(compiled)

    assert run(0)
    sized = [name for name in kept if "tables" in (disk_cache.load(name) or [{}])[0]]
    assert len(sized) == 1
    head, code, listing = disk_cache.load(sized[0])
    assert run(1) == 0
    CHANGES[change](head)
    keep(sized[0], head, code, listing)
    assert run(2) > 0
    assert run(3) == 0
    assert stored.load(sized[0], 1)[1]["names"] == ["a"]
