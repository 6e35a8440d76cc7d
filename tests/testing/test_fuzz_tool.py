"""The fuzzer: programs on fixed seeds hold, and a fault that is planted is found and made small."""

import random
import subprocess
import sys
import time

import pytest

import fx
from fx.testing.fuzz import __main__ as command
from fx.testing.fuzz.generator import GENERATORS, ORACLES, TEMPLATE, make
from fx.testing.fuzz.outcomes import Found, Invalid, Outcome, near
from fx.testing.fuzz.program import Op, Program, from_data, smaller
from fx.testing.fuzz.runner import Hunt
from tests.thorough import THOROUGH

PROGRAMS = {
    "graphs": 30, "sizes": 15, "primitives": 30, "derivatives": 25, "histories": 25, "loops": 30,
    "interrupts": 5, "threads": 5, "files": 60, "numbers": 30, "pystate": 30, "writes": 250,
    "jitwrites": 25,
}  # fmt: skip
if not THOROUGH:  # the laws and the words are tests of their own; here the tool itself is
    PROGRAMS |= {
        "graphs": 15,
        "sizes": 8,
        "primitives": 8,
        "derivatives": 5,
        "histories": 8,
        "loops": 15,
        "writes": 60,
        "jitwrites": 8,
    }


@pytest.mark.parametrize("generator", PROGRAMS)
def test_programs_of_fixed_seeds(generator):
    if generator in ORACLES:
        pytest.importorskip(ORACLES[generator])
    hunt = Hunt(seed=3)
    try:
        for index in range(PROGRAMS[generator]):
            found = hunt.one(generator, index)
            assert found is None, f"number {index}\n{found.test()}"
    finally:
        hunt.stop()
    assert hunt.counts == {generator: PROGRAMS[generator]}
    assert hunt.void.get(generator, 0) <= PROGRAMS[generator] // 4, "too many say nothing"


@pytest.mark.parametrize("generator", GENERATORS)
def test_programs_are_data(generator):
    for index in range(6):
        program = make(generator, 1, index)
        again = from_data(program.as_data())
        assert again == program == make(generator, 1, index)
        compile(program.source(), "<program>", "exec")
        assert len({p.source() for p in smaller(program)} - {program.source()}) > 0


def test_smaller_programs():
    """What fails is cut down to what makes it fail: here, a product whose result is returned."""
    body = (
        Op("a", "x + 1", ("x",)),
        Op("b", "{0} * {1}", ("a", "x")),
        Op("c", "{0} - 1", ("b",)),
        Op("", "return [{all}]", ("b", "c")),
    )
    main = (
        Op("", "def f({all}):\n    {body}", ("x", "y"), (), body),
        Op("", "assert 6 not in f({all})", ("x", "y")),
    )
    inputs = (Op("x", "int('2')", (), ("2",)), Op("y", "int('3')"))
    program = Program("none", TEMPLATE, {"inputs": inputs, "main": main})

    def fails(program):
        space = {}
        try:
            exec(program.source(), space)
            space["test_found"]()
        except AssertionError:
            return True
        except (NameError, TypeError, SyntaxError):
            return False
        return False

    assert fails(program)
    while found := next(filter(fails, smaller(program)), None):
        program = found
    words = " ".join(program.source().partition("def test_found():")[2].split())
    assert words == "x = 2 def f(x): a = x + 1 b = a * x return [b] assert 6 not in f(x)"


# what rounding decides ----------------------------------------------------------------------------

ROWS = fx.reshape(fx.sin(fx.arange(650.0)), (130, 5))
CENTRED = lambda x: [fx.sum(fx.nn.functional.layer_norm(x, (5,)))]
DIFFERENCES = {
    "a last digit of a sum that is 0": (CENTRED, lambda y: y + 2e-5, Invalid),
    "more than a last digit": (CENTRED, lambda y: y + 2e-3, Found),
    "one place": (lambda x: [x * 0.5], lambda y: y.at[3, 2].multiply(1 + 1e-4), Found),
    "a row of sums": (lambda x: [fx.sum(x, axis=1)], lambda y: y.at[7].add(1e-4), Found),
    "a jump": (lambda x: [fx.floor(x * 8) * 1e-4], lambda y: y.at[0, 1].add(1e-4), Found),
    "a whole number": (lambda x: [fx.argsort(x, axis=0)], lambda y: y.at[0].add(1), Found),
    "another dtype": (CENTRED, lambda y: y.astype(fx.float64) + 2e-5, Found),
    "what is drawn": (lambda x: [fx.sum(x) * 0 + random.random()], lambda y: y + 1e-4, Found),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_only_what_rounding_decides_says_nothing(case):
    function, change, kind = DIFFERENCES[case]
    want = Outcome(function, (ROWS,), True)
    want.scale = max(want.scale, 2.0)
    with pytest.raises(kind):
        near([change(want.value[0])], want, case)
    near(want.value, want, case)


# faults -----------------------------------------------------------------------------------------

WRONG = """
import numpy as np
from fx.testing.laws import primitive
chosen = primitive({name!r})
kernel = chosen.cpu
def wrong(*args, **params):
    {fault}
chosen.cpu = chosen.kernels["cpu"] = wrong
"""
DROPS = "out = np.array(kernel(*args, **params)); out.reshape(-1)[-1:] = 0.25; return out"
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
SUMS = ["sum", "mean", "norm", "var", "std"]
HANGS = "import time; time.sleep(1000)"
SLOW = "import time; time.sleep(0.2); return kernel(*args, **params)"
PLANTED = {
    "the last element of a product": ("numbers", "multiply", DROPS, "differs", "*"),
    "the last element of a cosine in a loop": (
        "loops",
        "cos",
        DROPS,
        "differs",
        ["cos", "grad", "second", "jvp"],
    ),
    "the last element of a sum": ("graphs", "sum", DROPS, "differs", SUMS),
    "a kernel that dies": ("loops", "cos", DIES, "crash", ["cos", "grad", "second", "jvp"]),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_fault_is_found_and_made_small(case):
    generator, name, fault, kind, words = PLANTED[case]
    hunt = Hunt(3, {"fault": WRONG.format(name=name, fault=fault)}, shrinking=8)
    try:
        found = next(filter(None, (hunt.one(generator, i) for i in range(300))))
    finally:
        hunt.stop()
    assert found.kind == kind and found.alone, found.test()
    assert any(word in found.test() for word in words), found.test()
    assert found.program.size() <= 9, found.test()
    text = found.test("test_of_a_fault")
    assert "def test_of_a_fault" in text and text.startswith(f"# {kind} ({generator})")
    compile(text, "<test>", "exec")


WRITING = {
    "a view that is forgotten": """
from fx.writing.records import Family
Family.add = lambda self, member: None
""",
    "a pullback that sees the new value": """
import fx.torch
from fx.writing import noting, storing, written
convert = written.convert
for module in (noting, storing, written):
    module.convert = lambda x, number: convert(x, 0)
""",
    "a member that is not told": """
from fx.writing.records import view_of
from fx.writing.written import Written
read = Written.read
def stale(self):
    known = view_of(self).value
    return read(self) if known is None else known
Written.read = stale
""",
}


@pytest.mark.parametrize("case", WRITING)
def test_a_fault_in_how_a_write_works_is_found(case):
    pytest.importorskip("torch")
    hunt = Hunt(81, {"fault": WRITING[case]}, shrinking=0)
    try:
        found = next(filter(None, (hunt.one("writes", i) for i in range(250))), None)
    finally:
        hunt.stop()
    assert found is not None and found.kind == "differs", found


def test_a_program_that_hangs_is_ended():
    fault = WRONG.format(name="cos", fault=HANGS)
    hunt = Hunt(3, {"fault": fault}, seconds=2, shrinking=0)
    try:
        found = next(filter(None, (hunt.one("loops", i) for i in range(50))))
    finally:
        hunt.stop()
    assert found.kind == "hang"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_program_that_gets_no_core_is_no_hang():
    starved = WRONG.format(name="cos", fault=SLOW)
    hunts = [Hunt(3, {"fault": starved}, seconds=1, shrinking=0) for _ in "ab"]
    begin = time.monotonic()
    hunts[1].child._delay = lambda: 2 * (time.monotonic() - begin)  # others had both cores
    found = []
    for hunt in hunts:
        found.append(hunt.child.order({"generator": "loops", "seed": 3, "index": 1})[1])
        hunt.stop()
    assert found == ["hang", None]


def test_the_command_counts(capsys):
    assert command.main(["--only", "graphs", "--programs", "2", "--seed", "3"]) == 0
    assert capsys.readouterr().out.endswith("2 programs (graphs 2), 0 findings\n")
    with pytest.raises(SystemExit):
        command.main(["--only", "nonsense"])
    assert "there is no generator 'nonsense'; there are graphs" in capsys.readouterr().err


def test_a_generator_without_its_oracle_is_skipped(monkeypatch, capsys):
    monkeypatch.setitem(ORACLES, "writes", "a_library_that_is_not_there")
    assert command.main(["--only", "writes", "--programs", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("writes: skipped, for a_library_that_is_not_there is not installed\n")
    assert said.endswith("0 programs (), 0 findings\n")


def test_the_command_fails_when_something_is_found(monkeypatch, capsys):
    planted = {"fault": WRONG.format(name="sum", fault="return kernel(*args, **params) * 2")}
    hunt = command.Hunt
    monkeypatch.setattr(command, "Hunt", lambda seed: hunt(seed, planted, shrinking=5))
    assert command.main(["--only", "graphs", "--programs", "30", "--seed", "3"]) == 1
    assert "de" in capsys.readouterr().out


def test_it_is_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "fx.testing.fuzz", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "--minutes" in done.stdout
