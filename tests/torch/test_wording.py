"""Messages in a script's own words, names that scripts import, and what they are told."""

import re
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from fx import wording


def message(line, **names):
    """What a script that imports ``fx.torch as torch`` is told."""
    space = {"torch": fx.torch, "nn": fx.nn, "__name__": "script", **names}
    with pytest.raises(Exception) as info, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(line, "script.py", "exec"), space)
    return str(info.value)


@pytest.mark.parametrize(
    "call",
    [
        "x.transpose(0, 5)", "x.permute(0, 5)", "x.amax(5)", "torch.amin(x, 5)", "x.movedim(0, 5)",
        "torch.cat([x, torch.ones(2)])", "x.sum(5)", "x.unbind(5)", "x.mul(torch.ones(7))",
        "torch.take_along_dim(x, torch.zeros(1, dtype=torch.int64), 1)", "x.expand(5, 5)",
        "x.softmax(5)", "torch.aminmax(x, dim=5)", "x.unsqueeze(9)", "x.swapaxes(0, 5)",
        "torch.cumsum(x, 5)", "x.flip(5)", "x.gather(5, x.long())", "x.count_nonzero(5)",
    ],
)  # fmt: skip
def test_a_message_names_what_was_called(call):
    name = re.search(r"\.(\w+)\(", call)[1]
    said = message(f"x = torch.ones(2, 3)\n\n\ny = ({call})")
    assert said.startswith((name, f"x.{name}")), said


def test_lines_run_where_they_are_shown():
    said = message("torch.mean(torch.ones(2, dtype=torch.int64))")
    assert "torch.mean(x.to(torch.float32))" in said and "fx." not in said
    assert "T.mean(x.to(T.float32))" in message(
        "x.long().mean()", T=fx.torch, torch=0, x=fx.ones(2)
    )
    x = fx.tensor([1, 2])
    with pytest.raises(TypeError, match=r"fx.mean\(x.astype\(fx.float32\)\)"):
        x.mean()  # this module says fx
    assert "fx.mean(x.astype(fx" in message("import fx\nx.mean()", x=x)


def test_every_line_has_its_name_in_torch():
    """A name that a message may show is one that the face has, or known to be fx's own."""
    home = Path(fx.__file__).parent
    shown = set()
    for part in ("ops", "prims"):
        for path in (home / part).rglob("*.py"):
            for text in re.findall(r'f?"[^"\n]*\bwrite [^"\n]*"', path.read_text()):
                shown |= set(re.findall(r"\bfx\.([a-z]\w+)\(", text))
    assert len(shown) >= 10
    lacking = {
        name for name in shown
        if not hasattr(fx.torch, name) and not hasattr(fx.torch.func, name)
    }  # fmt: skip
    assert lacking <= KNOWN, sorted(lacking - KNOWN)
    for called, works in wording._WORK.items():
        assert hasattr(fx.Tensor, called) or hasattr(fx.torch, called), called
        assert works


KNOWN = {"expand_dims", "from_numpy", "matrix_transpose", "pad", "eval_shape", "take"}


# names that scripts import ----------------------------------------------------------------------

IMPORTS = """
import fx.torch.onnx, fx.torch.hub, fx.torch.export, fx.torch.sparse, fx.torch.serialization
import fx.torch.testing
from fx.torch.profiler import ProfilerActivity, profile, record_function
from fx.torch.onnx import export
from fx.torch.hub import load_state_dict_from_url
from fx.torch.nn.attention import SDPBackend, sdpa_kernel
from fx.torch.utils.benchmark import Timer
from fx.torch.serialization import add_safe_globals, load
activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
    y = fx.torch.nn.functional.scaled_dot_product_attention(*[fx.torch.ones(1, 2, 4)] * 3)
"""


def test_rooms_are_there_and_refuse_when_called():
    names: dict = {"fx": fx}
    exec(IMPORTS, names)
    assert names["load"] is fx.load and names["y"].shape == (1, 2, 4)
    for call, words in (
        (lambda: names["profile"](activities=names["activities"]), "cProfile"),
        (lambda: names["export"](None, None, "m.onnx"), "torch.save.model.state_dict"),
        (lambda: names["load_state_dict_from_url"]("http://x"), "torch.load.path"),
        (lambda: names["add_safe_globals"]([int]), "reads tensors and plain containers"),
        (lambda: fx.torch.sparse.mm(1, 2), "dense"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            call()
    with pytest.raises(AttributeError, match=r"torch.onnx.nonsense"):
        fx.torch.onnx.nonsense
    with pytest.raises(TypeError, match="SDPBackend"), names["sdpa_kernel"]("flash"):
        pass
    for room in ("onnx", "hub", "profiler", "export", "sparse", "serialization"):
        missing = {n for n in dir(getattr(fx.torch, room)) if not n.startswith("_")} - set(
            dir(__import__(f"torch.{room}", fromlist=["x"]))
        )
        assert not missing - {"dynamo_export", "ExportOptions"}, room
    timed = names["Timer"]("x + 1", globals={"x": fx.ones(3)}).blocked_autorange(min_run_time=0.01)
    assert 0 < timed.median < 1 and "Median" in repr(timed) and timed.mean > 0


PAIRS = [
    ("t.tensor([1.0, 2.0])", "t.tensor([1.0, 2.0 + 1e-7])", {}),
    ("t.tensor([1.0, 2.0])", "t.tensor([1.0, 2.1])", {}),
    ("t.tensor([1.0, 2.0])", "t.tensor([1.0, 2.1])", {"rtol": 0.1, "atol": 0.0}),
    ("t.tensor([[1.0, 2.0]])", "t.tensor([1.0, 2.0])", {}),
    ("t.tensor([1.0])", "t.tensor([1.0], dtype=t.float64)", {}),
    ("t.tensor([1.0])", "t.tensor([1.0], dtype=t.float64)", {"check_dtype": False}),
    ("t.tensor([float('nan')])", "t.tensor([float('nan')])", {}),
    ("t.tensor([float('nan')])", "t.tensor([float('nan')])", {"equal_nan": True}),
    ("t.tensor([float('inf')])", "t.tensor([float('inf')])", {}),
    ("t.tensor([float('inf')])", "t.tensor([-float('inf')])", {}),
    ("t.tensor([1, 2])", "t.tensor([1, 3])", {}),
    ("t.tensor([2**62])", "t.tensor([2**62 + 1])", {}),
    ("t.tensor([True])", "t.tensor([True])", {}),
    ("1.0", "1.0 + 1e-9", {}),
    ("1.0", "1.1", {}),
    ("[t.ones(2), 3]", "[t.ones(2), 3]", {}),
    ("[t.ones(2), 3]", "[t.ones(2)]", {}),
    ("{'a': t.ones(2)}", "{'a': t.zeros(2)}", {}),
    ("{'a': t.ones(2)}", "{'b': t.ones(2)}", {}),
    ("t.tensor([1.0]).bfloat16()", "t.tensor([1.01]).bfloat16()", {}),
    ("t.tensor([1j])", "t.tensor([1j + 1e-3])", {}),
    ("t.empty(0)", "t.empty(0)", {}),
]  # fmt: skip


@pytest.mark.parametrize(("actual", "expected", "options"), PAIRS)
def test_assert_close_decides_as_torchs(actual, expected, options):
    verdicts = []
    for t in (torch, fx.torch):
        try:
            t.testing.assert_close(eval(actual), eval(expected), **options)
            verdicts.append(None)
        except AssertionError as error:
            verdicts.append([line for line in str(error).split("\n") if "Mismatched" in line])
    assert verdicts[0] == verdicts[1]


def test_what_scripts_write_wrongly_is_told():
    t, net = fx.torch, fx.nn.Linear(2, 2)
    for call, words in (
        (lambda: t.optim.SGD(net, lr=0.1), r"got a Module; write SGD\(model.parameters\(\)"),
        (lambda: t.optim.Adam(net.parameters), r"got a method; write Adam\(model.parameters\(\)"),
        (lambda: t.randint(5), "takes .high, size. or"),
    ):
        with pytest.raises(TypeError, match=words):
            call()
    for call in (lambda: net.to("cuda"), lambda: t.ones(2, device="cuda:0")):
        with pytest.raises(RuntimeError, match=r"'cuda' if torch.cuda.is_available.. else 'cpu'"):
            call()
    assert t.randint(high=5, size=(2, 3)).shape == t.randint(5, size=(2, 3)).shape == (2, 3)
    for layer, shape in (
        ("BatchNorm1d(3)", (1, 3)), ("BatchNorm2d(3)", (1, 3, 1, 1)), ("GroupNorm(3, 3)", (1, 3)),
        ("InstanceNorm1d(3)", (2, 3, 1)),
    ):  # fmt: skip
        for lib in (torch, fx.torch):
            with pytest.raises(ValueError, match="xpected more than 1"):
                eval(layer, vars(lib.nn))(lib.ones(shape))
    assert fx.nn.GroupNorm(3, 3)(fx.ones(2, 3)).shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            "x.sum(dimm=1)",
            "sum() got an unexpected keyword argument 'dimm'; did you mean 'dim'",
        ),
        ("x.clamp(mn=0)", "clamp() got an unexpected keyword argument 'mn'; did you mean 'min'?"),
        (
            "x.view(sizes=(6,))",
            "view() got an unexpected keyword argument 'sizes'; it takes no",
        ),
        ("nn.functional.relu(x, inplase=True)", "did you mean 'inplace'? it takes input, inplace"),
        (
            "torch.zeros(2, dtyp=1)",
            "did you mean 'dtype'? it takes out, dtype, layout, dev",
        ),
        (
            "nn.Linear(3, 2, biass=False)",
            "Linear() got an unexpected keyword argument 'biass'",
        ),
        (
            "nn.Dropout(prob=1)",
            "Dropout() got an unexpected keyword argument 'prob'; it takes p,",
        ),
        ("x.backward(retian_graph=True)", "backward() got an unexpected keyword argument 'retian"),
        ("torch.optim.Adam([], learning_rate=1)", "it takes params, lr, betas, eps, weight_decay,"),
        ("x.unsqueese(0)", "Did you mean: 'unsqueeze'?"),
        ("nn.Linearr(1, 1)", "Did you mean: 'Linear'?"),
    ],
)
def test_a_wrong_word_ends_the_program_with_the_right_one(call, says, capsys):
    """Python's own message, in a script of its own: nothing was looked up before."""
    space = {"torch": fx.torch, "nn": fx.torch.nn, "x": fx.ones((2, 3)), "__name__": "script"}
    with pytest.raises((TypeError, AttributeError)) as info:
        exec(compile(f"\n{call}", "script.py", "exec"), space)
    sys.excepthook(info.type, info.value, info.tb.tb_next)
    assert says in capsys.readouterr().err


def test_keywords_of_others_are_left_alone(capsys):
    script = "def clamp(x):\n    return x\n\n"
    for call in ("clamp(1, mn=2)", "print(colour=1)", "(lambda x: x)(y=1)"):
        with pytest.raises(TypeError) as info:
            exec(compile(script + call, "script.py", "exec"), {"__name__": "script"})
        sys.excepthook(info.type, info.value, info.tb)
        assert "it takes" not in capsys.readouterr().err.splitlines()[-1]
