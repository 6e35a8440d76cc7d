"""Errors as a user sees them: a script's own frames, the function, the shapes, a line to write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fx

PACKAGE = str(Path(fx.__file__).resolve().parent.parent)

# name: (the script's failing lines, the error, words that its message must hold)
CASES = {
    "add": (
        "fx.ones(2, 3) + fx.ones(4)",
        "ShapeError",
        ["add", "(2, 3)", "(4,)", "reshape"],
    ),
    "matmul": (
        "fx.ones(2, 3) @ fx.ones(4, 5)",
        "ShapeError",
        ["matmul", "(2, 3)", "(4, 5)", "x.mT"],
    ),
    "conv2d": (
        "fx.nn.functional.conv2d(fx.ones(1, 3, 8, 8), fx.ones(4, 5, 3, 3))",
        "ShapeError",
        ["conv2d", "(1, 3, 8, 8)", "(4, 5, 3, 3)", "groups="],
    ),
    "reshape": (
        "fx.ones(2, 3).reshape(4, 2)",
        "ShapeError",
        ["reshape", "(2, 3)", "(4, 2)", "-1"],
    ),
    "concat": (
        "fx.concat([fx.ones(2, 3), fx.ones(2, 4)])",
        "ShapeError",
        ["concat", "(2, 3)", "(2, 4)", "fx.stack"],
    ),
    "index": (
        "fx.ones(2, 3)[0, 7]",
        "IndexingError",
        ["7", "(2, 3)", "-3"],
    ),
    "index_tensor": (
        "fx.ones(2, 3)[fx.tensor([0, 5])]",
        "IndexingError",
        ["5", "size 2"],
    ),
    "dtype": (
        "fx.ones(3) & 1",
        "DTypeError",
        ["bitwise_and", "float32", "astype"],
    ),
    "order": (
        "fx.tensor([1j]) < fx.tensor([2j])",
        "DTypeError",
        ["less", "complex64", "x.real"],
    ),
    "condition": (
        "fx.where(fx.tensor([1, 0]), 1.0, 2.0)",
        "DTypeError",
        ["where", "bool", "int64", "!= 0"],
    ),
    "mean_of_ints": (
        "fx.mean(fx.tensor([1, 2]))",
        "DTypeError",
        ["mean", "int64", "x.astype(fx.float32)"],
    ),
    "device": (
        "fx.ones(3) + fx.ones(3, device='meta')",
        "DeviceError",
        ["add", "meta", "x.to("],
    ),
    "axis": (
        "fx.ones(2, 3).sum(axis=5)",
        "AxisError",
        ["sum", "5", "(2, 3)", "expected -2 to 1"],
    ),
    "int_pow": (
        "fx.tensor([2]) ** -1",
        "ValueError",
        ["power", "int64", "x.astype(fx.float32) ** y"],
    ),
    "bool_of_many": (
        "bool(fx.ones(2))",
        "ShapeError",
        ["(2,)", "any", "all"],
    ),
    "bool_of_lanes": (
        "def f(x):\n    if x > 0:\n        return x\n    return -x\nfx.vmap(f)(fx.ones(3))",
        "BatchedValueError",
        ["vmap", "fx.where"],
    ),
    "second_backward": (
        "x = fx.ones(3, requires_grad=True)\ny = (x * x).sum()\ny.backward()\ny.backward()",
        "BackwardError",
        ["retain_graph=True"],
    ),
    "vector_backward": (
        "x = fx.ones(3, requires_grad=True)\n(x * x).backward()",
        "BackwardError",
        ["(3,)", ".sum()"],
    ),
    "no_graph_backward": (
        "fx.ones(()).backward()",
        "BackwardError",
        ["requires_grad"],
    ),
    "int_grad": (
        "fx.grad(lambda x: x * x)(3)",
        "DTypeError",
        ["grad", "int", "float"],
    ),
    "vector_grad": (
        "fx.grad(lambda x: x * x)(fx.ones(3))",
        "ShapeError|BackwardError",
        ["grad", "(3,)", "sum"],
    ),
    "setitem": (
        "x = fx.ones(3)\nx[0] = 5.0",
        "InPlaceError",
        ["x = x.at[", ".set("],
    ),
    "add_": (
        "x = fx.ones(3)\nx.add_(1.0)",
        "InPlaceError",
        ["add_", "x = x + "],
    ),
    "escaped": (
        "kept = []\ndef f(x):\n    kept.append(x)\n    return x * x\nfx.grad(f)(2.0)\nkept[0] + 1",
        "EscapedTracerError",
        ["grad", "has_aux=True", "script.py"],
    ),
    "vmap_sizes": (
        "fx.vmap(lambda x, y: x + y)(fx.ones(2), fx.ones(3))",
        "ShapeError",
        ["vmap", "2", "3"],
    ),
    "state_dict": (
        "fx.nn.Linear(2, 3).load_state_dict(fx.nn.Linear(3, 3).state_dict())",
        "StateError",
        ["weight", "(3, 2)", "(3, 3)"],
    ),
    "linear": (
        "fx.nn.Linear(2, 3)(fx.ones(4, 5))",
        "ShapeError",
        ["linear", "(4, 5)", "(3, 2)"],
    ),
    "cross_entropy": (
        "fx.nn.functional.cross_entropy(fx.ones(2, 3), fx.tensor([0, 3]))",
        "IndexingError",
        ["cross_entropy", "0..2", "(2, 3)", "ignore_index="],
    ),
    "negative_class": (
        "fx.nn.functional.nll_loss(fx.ones(2, 3), fx.tensor([0, -1]))",
        "IndexingError",
        ["nll_loss", "0..2", "ignore_index=-1"],
    ),
    "embedding": (
        "fx.nn.functional.embedding(fx.tensor([0, -1]), fx.ones(3, 2))",
        "IndexingError",
        ["embedding", "0..2", "(3, 2)", "clip"],
    ),
    "permute": (
        "fx.permute_dims(fx.ones(2, 3), 1)",
        "AxisError",
        ["permute_dims", "(2, 3)", "1 of the 2 axes"],
    ),
    "sizes": (
        "fx.ones(2, 3).reshape(2.0, 3)",
        "DTypeError",
        ["reshape", "2.0", "int("],
    ),
    "masked_fill": (
        "fx.ones(2).masked_fill(fx.tensor([True, False]), 'zero')",
        "DTypeError",
        ["masked_fill", "value", "str", "fx.asarray"],
    ),
    "bool_floor_divide": (
        "fx.tensor([True]) // fx.tensor([True])",
        "DTypeError",
        ["floor_divide", "bool", "x.astype"],
    ),
}


# runs scripts one after the other, each as an interpreter runs its main file, and gives what the
# hook for uncaught errors writes
RUNNER = """
import contextlib, io, json, sys
told = {}
for path in sys.argv[1:]:
    with open(path) as file:
        code = compile(file.read(), path, "exec")
    try:
        exec(code, {"__name__": "__main__", "__file__": path})
    except BaseException as error:
        trace = error.__traceback__.tb_next
        with contextlib.redirect_stderr(io.StringIO()) as out:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        told[path] = out.getvalue()
print(json.dumps(told))
"""


def _written(folder: Path, lines: str) -> str:
    folder.mkdir(exist_ok=True)
    script = folder / "script.py"
    script.write_text(f"import fx\nimport fx.nn\n{lines}\n")
    return str(script)


def _run(*arguments: str, full: bool = False) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": PACKAGE}
    env.pop("FX_TRACEBACK", None)
    if full:
        env["FX_TRACEBACK"] = "full"
    return subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=60
    )


def _errors_of(script: str, full: bool = False) -> str:
    """What the script writes to stderr, in an interpreter of its own."""
    done = _run(script, full=full)
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """The script of each case, and what it writes to stderr; one interpreter runs them all."""
    base = tmp_path_factory.mktemp("scripts")
    scripts = {name: _written(base / name, lines) for name, (lines, _, _) in CASES.items()}
    done = _run("-c", RUNNER, *scripts.values())
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return {name: (script, told.get(script, "no error")) for name, script in scripts.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_script_fails_with_its_own_frames_and_a_line_to_write(
    name: str, written: dict[str, tuple[str, str]]
) -> None:
    _, kind, words = CASES[name]
    script, text = written[name]
    files = re.findall(r'File "([^"]+)"', text)
    assert files and set(files) == {script}, text
    assert text.count("Traceback (most recent call last)") == 1, text
    last = next(line for line in text.splitlines() if re.match(r"(fx\.errors\.)?\w+Error:", line))
    assert last.partition(":")[0].rpartition(".")[2] in kind.split("|"), text
    message = text[text.index(last) :]
    assert [word for word in words if word not in message] == [], message


def test_an_interpreter_of_its_own_writes_the_same(
    tmp_path: Path, written: dict[str, tuple[str, str]]
) -> None:
    for name in list(CASES)[::20]:
        script = _written(tmp_path, CASES[name][0])
        assert _errors_of(script) == written[name][1].replace(written[name][0], script)


def test_the_full_traceback_shows_the_frames_of_fx(tmp_path: Path) -> None:
    text = _errors_of(_written(tmp_path, "fx.ones(2, 3) + fx.ones(4)"), full=True)
    home = str(Path(fx.__file__).parent)
    assert any(f.startswith(home) for f in re.findall(r'File "([^"]+)"', text)), text


def test_a_caught_error_keeps_only_the_users_frames() -> None:
    import traceback

    with pytest.raises(fx.errors.ShapeError) as caught:
        fx.ones(2, 3) + fx.ones(4)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}
