"""What scripts call most: PyTorch's operations counted in the sources of the tests' scripts.

``python -m benchmarks called`` prints each operation with its share of all calls. The spellings of
one operation (``torch.add``, ``x.add``, ``+``) count as that one, a layer as the function that it
calls, once where it is made. Nothing is run: whether ``a + b`` is of tensors is told by where the
names of a file come from.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests/scripts", "tests/examples", "fx/examples")
SNIPPETS = "tests/torch/idioms.py"  # public code, in one string
MOST = 30  # operations that have to be quick

_SIGNS: dict[type, str] = {
    ast.Add: "addition", ast.Sub: "subtraction", ast.Mult: "multiplication",
    ast.Div: "division", ast.Pow: "power", ast.MatMult: "matmul", ast.Mod: "remainder",
    ast.FloorDiv: "floor_divide", ast.USub: "neg", ast.Invert: "logic", ast.BitAnd: "logic",
    ast.BitOr: "logic", ast.BitXor: "logic",
}  # fmt: skip
_SPELLINGS = {
    "addition": "add __add__", "subtraction": "sub subtract rsub", "multiplication": "mul multiply",
    "division": "div divide true_divide", "power": "pow square",
    "matmul": "mm bmm mv dot matmul", "comparison": "eq ne gt ge lt le greater less equal",
    "logic": "logical_and logical_or logical_not", "view": "view reshape flatten view_as",
    "transpose": "transpose permute t T mT swapaxes movedim",
    "unsqueeze": "unsqueeze squeeze", "detach": "detach data",
    "zeros": "zeros ones full zeros_like ones_like full_like empty empty_like",
    "randn": "randn rand randn_like rand_like normal", "max": "max min argmax argmin amax amin",
    "to": "to float double long int bool half type type_as cpu cuda",
    "tensor": "tensor as_tensor asarray",
    "cat": "cat stack concat hstack vstack", "softmax": "softmax log_softmax",
    "exp": "exp log sqrt rsqrt log1p expm1 sin cos", "shape": "shape size",
    "split": "split chunk unbind", "clamp": "clamp clip", "mean": "mean", "std": "std var",
    "linspace": "linspace arange", "norm": "norm", "tril": "tril triu",
    "relu": "relu leaky_relu gelu silu elu", "sigmoid": "sigmoid tanh",
    "expand": "expand expand_as", "backward": "backward",
    "binary_cross_entropy": "binary_cross_entropy binary_cross_entropy_with_logits",
    "max_pool2d": "max_pool2d avg_pool2d adaptive_avg_pool2d", "mse_loss": "mse_loss l1_loss",
    "item": "item tolist", "from_numpy": "from_numpy numpy", "conv2d": "conv2d conv1d",
    "rnn": "rnn lstm gru lstm_cell gru_cell rnn_cell",
}  # fmt: skip
_OF = {name: kind for kind, names in _SPELLINGS.items() for name in names.split()}
_LAYERS = {
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy",
    "MSELoss": "mse_loss", "NLLLoss": "nll_loss", "L1Loss": "mse_loss", "ReLU": "relu",
    "GELU": "relu", "SiLU": "relu", "LSTM": "rnn", "GRU": "rnn", "RNN": "rnn", "Flatten": "view",
}  # fmt: skip
# what no tensor is computed by, and what is a call of the whole script
_NO_OPERATION = frozenset(
    """
    backward step zero_grad no_grad enable_grad inference_mode manual_seed seed device dtype load
    save Generator set_default_dtype get_default_dtype set_grad_enabled is_available use
    is_tensor is_floating_point finfo iinfo vmap jit compile apply copy_ requires_grad_ dim numel
    is_contiguous storage grad_fn register_hook retain_grad
    """.split()  # noqa: SIM905
)
_ATTRIBUTES = frozenset(("shape", "dtype", "device", "grad", "data", "T", "mT", "requires_grad"))
_NUMBERS = frozenset(
    "item tolist size dim numel numpy shape dtype device requires_grad backward".split()  # noqa: SIM905
)
# a name of which one of these is asked is a tensor's
_TELLING = frozenset(
    """
    backward detach requires_grad requires_grad_ unsqueeze squeeze view reshape permute dtype
    argmax softmax masked_fill scatter_ contiguous numel expand transpose matmul clone sigmoid
    """.split()  # noqa: SIM905
)
_BUILTINS = frozenset(
    """
    len range int float str print isinstance bool type list tuple dict set enumerate zip getattr
    hasattr super sorted open
    """.split()  # noqa: SIM905
)


# the rows of these operations in the table of small ones (``cases_tiny.py``)
ROWS: dict[str, tuple[str, ...]] = {
    "indexing": (
        "x[i]", "x[i, j]", "x[2:5]", "x[:, 1:]", "x[None]", "x[mask]", "x[idx]", "x[idx, idx]",
    ),
    "assignment": ("x[3] = 1.0", "x[3, 4] = 1.0", "x[mask] = 0.0", "x[:, 3] = v"),
    "multiplication": ("x * y", "x * 2.0"),
    "addition": ("x + y", "x + 1.0"),
    "subtraction": ("x - y",),
    "division": ("x / y",),
    "power": ("x ** 2",),
    "matmul": ("matmul", "bmm"),
    "comparison": ("x > 0", "x == y"),
    "item": ("item()", "tolist"),
    "shape": ("x.shape", "x.shape[0]", "x.size()", "x.size(0)"),
    "grad": ("x.grad", "p.grad"),
    "view": ("view", "reshape", "flatten"),
    "transpose": ("transpose", "permute", "t", "T"),
    "unsqueeze": ("unsqueeze", "squeeze"),
    "detach": ("detach", "p.detach()", "x.data", "p.data"),
    "linear": ("linear", "linear with a bias"),
    "to": ("to(float64)", "to(float32)"),
    "zeros": ("zeros", "zeros_like", "ones", "full", "empty"),
    "randn": ("randn", "rand", "randn_like", "normal"),
    "randint": ("randint",),
    "tensor": ("tensor",),
    "from_numpy": ("from_numpy", "x.numpy()"),
    "linspace": ("arange", "linspace"),
    "sum": ("sum", "sum(dim)"),
    "mean": ("mean",),
    "max": ("max", "max(dim)", "argmax"),
    "exp": ("exp", "log", "sqrt"),
    "relu": ("relu", "gelu", "silu", "leaky_relu"),
    "softmax": ("softmax", "log_softmax"),
    "clone": ("clone",),
    "cat": ("cat", "stack"),
    "conv2d": ("conv2d", "conv2d, padded"),
    "embedding": ("embedding",),
    "cross_entropy": ("cross_entropy",),
}  # fmt: skip


class _Source:
    """One program: which of its names are tensors', and what it calls."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.names: set[str] = set()
        self.calls: Counter[str] = Counter()
        while self._learns():
            pass
        for node in ast.walk(self.tree):
            for operation in self._operations(node):
                self.calls[operation] += 1

    def _learns(self) -> bool:
        before = len(self.names)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and self.is_tensor(node.value):
                for target in node.targets:
                    self._bind(target)
            elif isinstance(node, ast.For | ast.comprehension) and self.is_tensor(node.iter):
                self._bind(node.target)
            elif isinstance(node, ast.FunctionDef) and node.name == "forward":
                self.names.update(a.arg for a in node.args.args if a.arg not in ("self", "ctx"))
            elif isinstance(node, ast.Attribute) and node.attr in _TELLING:
                self._bind(node.value)
        return len(self.names) > before

    def _bind(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._bind(part)
        elif isinstance(target, ast.Name | ast.Attribute):
            name = ast.unparse(target)
            if not name.startswith(("nn", "torch", "F.")) and name != "self":
                self.names.add(name)

    def is_tensor(self, node: Any) -> bool:
        """Whether an expression gives a tensor, or several."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            if ast.unparse(node) in self.names:
                return True
            if node.attr in ("weight", "bias"):
                return True
            return self.is_tensor(node.value) and node.attr not in _NUMBERS
        if isinstance(node, ast.Call):
            function, name = node.func, ast.unparse(node.func)
            if name.startswith(("torch.", "F.", "nn.Parameter", "fx.")):
                return name.rpartition(".")[2] not in _NO_OPERATION
            if isinstance(function, ast.Attribute) and self.is_tensor(function.value):
                return function.attr not in _NUMBERS
            over = name in ("zip", "enumerate", "reversed")
            return (over or name not in _BUILTINS) and any(map(self.is_tensor, node.args))
        if isinstance(node, ast.BinOp):
            return self.is_tensor(node.left) or self.is_tensor(node.right)
        if isinstance(node, ast.Compare):
            return self.is_tensor(node.left) or any(map(self.is_tensor, node.comparators))
        if isinstance(node, ast.Subscript | ast.Starred):
            return self.is_tensor(node.value)
        if isinstance(node, ast.UnaryOp):
            return self.is_tensor(node.operand)
        if isinstance(node, ast.Tuple | ast.List):
            return any(map(self.is_tensor, node.elts))
        return False

    def _operations(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            sign = _SIGNS.get(type(node.op))
            if sign and self.is_tensor(node):
                yield sign
        elif isinstance(node, ast.AugAssign):
            if self.is_tensor(node.target):
                yield f"in-place {_SIGNS.get(type(node.op), 'logic')}"
        elif isinstance(node, ast.Compare):
            if self.is_tensor(node) and not isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In):
                yield "comparison"
        elif isinstance(node, ast.Subscript):
            if self.is_tensor(node.value):
                yield "assignment" if isinstance(node.ctx, ast.Store) else "indexing"
        elif isinstance(node, ast.Attribute):
            if node.attr in _ATTRIBUTES and self.is_tensor(node.value):
                yield _OF.get(node.attr, node.attr)
        elif isinstance(node, ast.Call):
            yield from self._called(node)

    def _called(self, node: ast.Call) -> Iterator[str]:
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if name.startswith("nn.") and name.count(".") == 1 and last[0].isupper():
            if last in _LAYERS:
                yield _LAYERS[last]
                return
            snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", last).lower().removesuffix("_loss")
            if "norm" in snake:
                snake = re.sub(r"\d?d?$", "", snake)
            if snake not in ("module", "parameter", "sequential", "module_list", "parameter_list"):
                yield _OF.get(snake, snake)
            return
        of_face = name.startswith(("torch.", "F.", "nn.functional.", "fx."))
        if of_face and name.split(".")[1] in _ROOMS:
            return
        method = isinstance(node.func, ast.Attribute) and self.is_tensor(node.func.value)
        if not (of_face or method) or last in _NO_OPERATION or last[0].isupper():
            return
        if last.endswith("_") and not last.endswith("__"):
            last = last.rstrip("_")
            yield f"in-place {_OF.get(last, last)}"
            return
        yield _OF.get(last, last)


_ROOMS = frozenset("optim utils cuda distributions autograd func backends amp nn random".split())  # noqa: SIM905


def sources() -> Iterator[str]:
    """The texts of the scripts."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "test_scripts" not in path.name and "harness" not in path.name:
                yield path.read_text()
    code = (ROOT / SNIPPETS).read_text().split('"""')[3]
    yield from re.split(r"^# .*$", code, flags=re.MULTILINE)


def of(text: str) -> Counter[str]:
    """The number of calls of each operation in a program."""
    return _Source(text).calls


def counted() -> Counter[str]:
    """The number of calls of each operation, over all scripts."""
    total: Counter[str] = Counter()
    for text in sources():
        total += of(text)
    return total


@cache
def most() -> list[tuple[str, float]]:
    """The operations that are called most, each with its share of all calls."""
    calls = counted()
    whole = calls.total()
    return [(name, count / whole) for name, count in calls.most_common(MOST)]


def main() -> None:
    """Print the operations, those that are called most first."""
    calls = counted()
    whole = calls.total()
    print(f"{whole} calls\n\n| | operation | calls | share |\n| ---: | --- | ---: | ---: |")
    for place, (name, count) in enumerate(calls.most_common(2 * MOST), 1):
        print(f"| {place} | {name} | {count} | {count / whole:.1%} |")


if __name__ == "__main__":
    main()
