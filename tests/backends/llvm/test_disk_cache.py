"""Compiled code on disk: hits without a compiler, bad files, another process, the size limit."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm import disk_cache, driver, engine, entry, executable, kernels
from fx.backends.cpu.llvm.allocation import allocator
from fx.backends.cpu.llvm.recipe import from_json
from fx.graph.ir import Graph, Node, input_value
from fx.graph.key import graph_key, is_stable
from fx.primitive import registry
from tests.backends.llvm.driver_steps import UPSIDE_DOWN, apply, argument, constant, graph_of

ROOT = Path(fx.__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, with the modules that all graphs share already loaded."""
    allocator()
    entry.loaded("graph")
    example().run(fx.zeros((3, 4)))  # eager kernels, too
    monkeypatch.setenv("FX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FX_CACHE", raising=False)
    disk_cache.compiler.cache_clear()
    monkeypatch.setattr(disk_cache, "_sources", lambda root: [])  # they may be edited meanwhile
    yield tmp_path / "cache"
    disk_cache.compiler.cache_clear()


@pytest.fixture
def compiled(monkeypatch):
    """The texts that LLVM is asked to compile."""
    texts = []
    monkeypatch.setattr(
        engine,
        "compile_text",
        lambda text, *rest, f=engine.compile_text: (texts.append(text), f(text, *rest))[1],
    )
    return texts


def compile_graph(graph, donated=()):
    """As in a process that has compiled nothing yet."""
    driver.forget()
    return driver.compile_graph(graph, donated)


def example(scale=3.0, names=("sin", "exp")):
    """A graph with native steps, a small and a large constant, and one Python step."""
    x = argument(3, 4)
    small = constant(np.full(4, scale, "f4"))
    large = constant(np.arange(1200, dtype="f4").reshape(100, 3, 4) / 120000)
    y = apply("multiply", apply(names[0], x), small)
    z = apply("sum", apply("multiply", y, large), axes=(0,), keepdims=False)
    values = Node(UPSIDE_DOWN, [z], {}).out
    return graph_of([x], [apply(names[1], values), y])


def entries(folder):
    return sorted(folder.glob("*.fxc"))


def check(graph, found):
    array = np.linspace(0, 1, 12, dtype="f4").reshape(3, 4)
    for one, other in zip(found.run([array]), graph.run(fx.tensor(array)), strict=True):
        np.testing.assert_allclose(one, other._a, rtol=1e-5, atol=1e-5)


def test_the_second_time_nothing_is_scheduled_or_compiled(folder, compiled, monkeypatch):
    first = compile_graph(example())
    assert compiled and len(entries(folder)) == 1
    compiled.clear()
    monkeypatch.setattr("fx.compiler.schedule.schedule", None)
    monkeypatch.setattr(kernels, "Kernels", None)
    graph = example()
    second = compile_graph(graph)
    assert not compiled
    check(graph, first)
    check(graph, second)
    assert second.schedule == first.schedule and second.memory == first.memory
    assert second.code() == first.code() and "define" in second.code()
    assert second.reuse == first.reuse


def test_graphs_of_one_key_share_their_code(folder, compiled, monkeypatch):
    monkeypatch.setenv("FX_CACHE", "0")
    first = compile_graph(example())
    compiled.clear()
    other = example()
    large = next(v for v in other.constants() if v.spec.size > 1000)
    large.constant = fx.tensor(np.full((100, 3, 4), 0.01, "f4"))
    second = driver.compile_graph(other)
    assert not compiled
    check(example(), first)
    check(other, second)
    del first, second
    driver.compile_graph(example())
    assert not compiled  # the last ones are kept for a function that is jitted again and again
    for i in range(40):
        driver.compile_graph(
            graph_of([x := argument(3)], [apply("multiply", x, constant(np.full(3, i, "f4")))])
        )
    assert len(driver._programs) < 40


def test_large_index_constants_are_part_of_the_key(folder):
    def take(index):
        x = argument(500)
        return graph_of([x], [apply("take", x, constant(index), axis=0)])

    good, bad = np.arange(400), np.arange(400) + 300
    array = np.arange(500, dtype="f4")
    np.testing.assert_array_equal(compile_graph(take(good)).run([array])[0], array[:400])
    assert graph_key(take(good)) != graph_key(take(bad))
    with pytest.raises(IndexError):
        compile_graph(take(bad)).run([array])


def adding(x, fixed, times):
    """``times`` times: x + fixed, with the constant inside the body of the loop."""
    i, carry = input_value(fx.TensorSpec((), fx.int64)), input_value(x.spec)
    body = graph_of(
        [i, carry], [apply("add", i, constant(np.array(1))), apply("add", carry, fixed)]
    )
    params = {"carries": 2, "mapped": 0, "length": times, "reverse": False, "checkpoint": False}
    node = Node(registry["scan"], [constant(np.array(0)), x], {"body": body, **params})
    return node.outs[1]


@pytest.fixture(params=["in one process", "from disk"])
def compiler(request, folder):
    return compile_graph if request.param == "from disk" else driver.compile_graph


def test_constants_of_inner_graphs_are_the_callers_own(compiler):
    for value in (1.0, 2.0, 3.0, 1.0):
        x = argument(1000)
        graph = graph_of([x], [adding(x, constant(np.full(1000, value, "f4")), 3)])
        assert len(graph_key(graph)) == 64
        (out,) = compiler(graph).run([np.zeros(1000, "f4")])
        np.testing.assert_array_equal(out, np.full(1000, 3 * value, "f4"))


def test_a_constant_that_stands_in_two_graphs_is_not_mixed_up(compiler):
    for one, other in ((1, None), (1, 2), (2, 1), (3, None), (1, 1)):
        x = argument(1000)
        first = constant(np.full(1000, one, "f4"))
        second = first if other is None else constant(np.full(1000, other, "f4"))
        graph = graph_of([x], [adding(adding(x, first, 2), second, 3)])
        (out,) = compiler(graph).run([np.zeros(1000, "f4")])
        np.testing.assert_array_equal(out, np.full(1000, 2 * one + 3 * (other or one), "f4"))


def test_donation_is_part_of_the_key(folder, compiled):
    plain, donated = compile_graph(example()), compile_graph(example(), [0])
    assert plain.reuse == {} and len(entries(folder)) == 2
    assert compile_graph(example(), [0]).reuse == donated.reuse


def test_values_of_small_constants_count_and_those_of_large_ones_do_not(folder, compiled):
    compile_graph(example())
    other = example(scale=4.0)
    check(other, compile_graph(other))
    assert len(entries(folder)) == 2
    same = example()
    large = next(v for v in same.constants() if v.spec.size > 1000)
    large.constant = fx.tensor(np.full((100, 3, 4), 0.01, "f4"))
    compiled.clear()
    check(same, compile_graph(same))
    assert not compiled


def test_the_switch_turns_it_off(folder, monkeypatch):
    monkeypatch.setenv("FX_CACHE", "0")
    check(example(), compile_graph(example()))
    assert not folder.exists()


def test_the_folder_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.delenv("FX_CACHE_DIR", raising=False)
    monkeypatch.delenv("FX_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.folder() == tmp_path / "xdg" / "fx"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert disk_cache.folder() == tmp_path / "home" / ".cache" / "fx"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert disk_cache.folder() is None


def test_a_folder_that_others_may_write_into_is_not_used(folder):
    folder.mkdir()
    folder.chmod(0o777)
    assert disk_cache.folder() is None
    check(example(), compile_graph(example()))
    assert not entries(folder)


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FX_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.delenv("FX_CACHE", raising=False)
    check(example(), compile_graph(example()))


def test_source_that_changed_while_the_process_runs_is_not_cached(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("FX_CACHE_DIR", str(folder))
    monkeypatch.setattr(disk_cache, "_begun", lambda: 0.0)
    check(example(), compile_graph(example()))
    assert not entries(folder)


MUTATIONS = {
    "empty": lambda data: b"",
    "short": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-1],
    "longer": lambda data: data + b"x",
    "another magic word": lambda data: b"fxcache0" + data[8:],
    "a bit in the checksum": lambda data: flipped(data, 12),
    "a bit in the lengths": lambda data: flipped(data, 42),
    "a bit in the head": lambda data: flipped(data, 80),
    "a bit in the code": lambda data: flipped(data, len(data) // 2),
    "a bit in the text": lambda data: flipped(data, len(data) - 5),
    "noise": lambda data: bytes(range(256)) * 9,
}


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]


@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_damaged_entry_is_made_again(folder, compiled, kind):
    compile_graph(example())
    (path,) = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(MUTATIONS[kind](whole))
    compiled.clear()
    graph = example()
    check(graph, compile_graph(graph))
    assert compiled
    compiled.clear()
    check(graph, compile_graph(example()))
    assert not compiled and len(entries(folder)) == 1


def forged(path, change):
    """Rewrite an entry's head and its checksum with it."""
    told, code, text = disk_cache.load(path.stem)
    change(told)
    disk_cache.store(path.stem, told, code, text)


def put(place, value):
    def change(told):
        *way, last = place
        for key in way:
            told = told[key]
        told[last] = value

    return change


FORGED = {
    "no recipe": lambda told: told.pop("recipe"),
    "recipe of another kind": put(["recipe"], [1, 2]),
    "negative slot": put(["recipe", "segments", 0, "writes"], [-1]),
    "slot out of range": put(["recipe", "segments", 0, "reads"], [99]),
    "inputs of another graph": put(["recipe", "inputs"], 2),
    "a float for a count": put(["recipe", "slots"], 7.5),
    "a boolean for a count": put(["recipe", "inputs"], True),
    "node out of range": put(["recipe", "segments", 1, "node"], 99),
    "no node": put(["recipe", "segments", 1, "node"], -1),
    "constant out of range": put(["recipe", "constants"], [0, 99]),
    "unknown dtype": put(["recipe", "segments", 0, "part", "results"], [["object", [3]]]),
    "huge shape": put(["recipe", "segments", 0, "part", "results"], [["float32", [1 << 60]]]),
    "huge arena": put(["recipe", "segments", 0, "part", "arena"], 1 << 60),
    "output out of range": put(["recipe", "segments", 0, "part", "outputs"], [["result", 9, None]]),
    "unknown place": put(["recipe", "segments", 0, "part", "outputs"], [["arena", 0, None]]),
    "another entry": put(["recipe", "segments", 0, "part", "name"], "nothing"),
    "no segments": put(["recipe", "segments"], []),
    "object sizes": put(["objects"], [5]),
    "negative object sizes": put(["objects"], [-5, 10]),
    "external of another type": put(["recipe", "externals"], [3]),
    "unknown external": put(["recipe", "externals"], ["fx.nothing"]),
}


@pytest.mark.parametrize("kind", FORGED)
def test_an_entry_that_says_something_else_is_made_again(folder, compiled, kind):
    compile_graph(example())
    (path,) = entries(folder)
    forged(path, FORGED[kind])
    compiled.clear()
    graph = example()
    check(graph, compile_graph(graph))
    assert compiled


def test_an_entry_under_another_name_is_refused(folder, compiled):
    compile_graph(example())
    (path,) = entries(folder)
    other = example(scale=9.0)
    compile_graph(other)
    name = next(p for p in entries(folder) if p != path)
    name.write_bytes(path.read_bytes())
    check(other, compile_graph(example(scale=9.0)))


@pytest.mark.parametrize("told", [None, [], {}, {"name": "x"}, 5, "text"])
def test_what_is_no_recipe_is_refused(told):
    with pytest.raises(ValueError, match="not a recipe"):
        from_json(told)


def test_no_entry_is_left_by_a_failure(folder, monkeypatch):
    monkeypatch.setattr(
        engine, "compile_text", lambda *args: (_ for _ in ()).throw(RuntimeError("no compiler"))
    )
    with pytest.raises(RuntimeError, match="no compiler"):
        compile_graph(example())
    assert not list(folder.glob("*"))


def test_a_full_disk_is_no_error(folder, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "no space")))
    check(example(), compile_graph(example()))
    assert not list(folder.glob("*"))


def test_what_was_unused_for_longest_goes_first(folder, monkeypatch):
    for i in range(6):
        disk_cache.store(f"{i}", {}, bytes(1000), b"")
        os.utime(folder / f"{i}.fxc", (1000 + i, 1000 + i))
    assert disk_cache.load("0") is not None  # now it is the newest
    monkeypatch.setattr(disk_cache, "_LIMIT", 5000)
    disk_cache.store("new", {}, bytes(1000), b"")
    left = {p.stem for p in entries(folder)}
    assert "0" in left and "new" in left and "1" not in left and len(left) <= 4


def test_what_is_a_key():
    key = graph_key(example())
    assert is_stable(key) and key == graph_key(example()) and len(key) == 64
    assert key != graph_key(example(scale=2.0))
    assert key != graph_key(example(names=("cos", "exp")))
    x, y = argument(3), argument(3)
    assert graph_key(graph_of([x, y], [apply("subtract", x, y)])) != graph_key(
        graph_of([x, y], [apply("subtract", y, x)])
    )
    assert graph_key(graph_of([x, y], [x])) != graph_key(graph_of([x, y], [y]))


def reshaped(shape):
    x = argument(2, 6)
    return graph_key(Graph([x], [n := Node(registry["reshape"], [x], {"shape": shape})], [n.out]))


def test_parameters_are_told_apart():
    assert reshaped((12,)) != reshaped((12, 1)) != reshaped((1, 12))
    x = input_value(fx.TensorSpec((3,), fx.float32))

    def key(**params):
        node = Node(registry["sin"], [x], params, [x.spec])
        return graph_key(Graph([x], [node], node.outs))

    inner = graph_of([y := argument(3)], [apply("sin", y)])
    told = [
        1, 1.0, True, None, "1", "None", b"1", (1,), ((1,),), (1, 2), ("1",), fx.float32, "float32",
        -1, 2**70, 0.5, float("inf"), 1j, slice(1), slice(1, 2), ..., inner, np.float32(1),
        np.int64(1), fx.TensorSpec((1,), fx.float32), {"a": 1}, {"a": 2}, (), "",
    ]  # fmt: skip
    keys = [key(value=value) for value in told]
    assert len(set(keys)) == len(told) and all(map(is_stable, keys))
    assert key(a=1, b=2) == key(b=2, a=1) != key(a=2, b=1)

    class Known:
        key = ("scale", 2)

    class Unknown:
        pass

    assert is_stable(key(f=Known())) and key(f=Known()) == key(f=Known())
    one, other = Unknown(), Unknown()
    assert not is_stable(key(f=one)) and key(f=one) == key(f=one) != key(f=other)
    assert not is_stable(key(f=lambda: 0))
    holder = graph_of([y := argument(3)], [Node(registry["sin"], [y], {"f": one}, [y.spec]).out])
    assert not is_stable(key(body=holder))


def test_a_graph_without_a_stable_key_is_not_kept(folder):
    x = argument(3)
    node = Node(registry["exp"], [x], {}, [x.spec])
    graph = Graph([x], [node], node.outs)
    graph.cache["key"] = "local-5"
    compile_graph(graph)
    assert not folder.exists() or not entries(folder)


# processes --------------------------------------------------------------------------------------

PROGRAM = """
import numpy as np
import fx
from fx.backends.cpu.llvm import disk_cache, driver, engine
disk_cache._sources = lambda root: []
compiled = []
compile_text = engine.compile_text
engine.compile_text = lambda *args: (compiled.append(1), compile_text(*args))[1]
def f(x, y):
    return fx.sum(fx.tanh(x @ y), axis=0), fx.exp(x)
x = fx.asarray(np.arange(20, dtype="f4").reshape(4, 5) / 20)
y = fx.asarray(np.ones((5, 3), "f4"))
graph = fx.make_graph(f)(x, y)
out = driver.compile_graph(graph).run([x._a, y._a])
for one, other in zip(out, f(x, y)):
    np.testing.assert_allclose(one, other._a, rtol=1e-5)
print(len(compiled))
"""


def compiled_there(folder):
    environment = {**os.environ, "FX_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    environment.pop("FX_CACHE", None)
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert out.returncode == 0, out.stderr
    return int(out.stdout)


def test_another_process_finds_the_code(folder):
    assert compiled_there(folder) > 0
    assert compiled_there(folder) == 0


def test_the_head_is_plain_json(folder):
    compile_graph(example())
    (path,) = entries(folder)
    data = path.read_bytes()
    size = int.from_bytes(data[40:48], "little")
    assert json.loads(data[64 : 64 + size])["recipe"]["inputs"] == 1
    assert sha256(path.stem.encode() + data[40:]).digest() == data[8:40]
    assert executable.SEPARATOR not in path.stem


def test_the_name_of_an_entry_depends_on_the_source_of_the_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("FX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FX_CACHE", raising=False)
    source = tmp_path / "source.py"
    names = []
    for text in ("one", "two", "one"):
        source.write_text(text)
        disk_cache.compiler.cache_clear()
        monkeypatch.setattr(disk_cache, "_begun", lambda: float("inf"))
        monkeypatch.setattr(disk_cache, "_sources", lambda root: [source])
        names.append(disk_cache.name_of("key"))
    disk_cache.compiler.cache_clear()
    assert names[0] == names[2] != names[1]


# imported by sources, without a say in what the code is: who calls it and how, what errors tell
NO_SOURCES = {
    "__init__", "away", "backward_pass", "config", "debug", "devices", "errors", "forking",
    "frames", "levels", "modes", "ops/convert", "quick", "seen", "state", "tape", "tensor", "tree",
}  # fmt: skip


def test_what_the_compiler_imports_is_its_source():
    root = ROOT / "fx"
    sources = set(disk_cache._sources(root))
    missing = set()
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fx":
                inside = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                inside = [alias.name for alias in node.names if alias.name.startswith("fx")]
            else:
                continue
            for name in {*inside, *[name.rpartition(".")[0] for name in inside]} - {""}:
                path = ROOT / name.replace(".", "/")
                missing |= {path.with_suffix(".py"), path / "__init__.py"} - sources
    found = {str(path.relative_to(root).with_suffix("")) for path in missing if path.exists()}
    assert found == NO_SOURCES
