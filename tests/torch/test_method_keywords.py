"""Methods take their arguments by PyTorch's keywords, as PyTorch's own stubs list them."""

import ast
import inspect
from pathlib import Path

import pytest

import fx.torch as ours

torch = pytest.importorskip("torch")

# where a signature takes sizes one by one, a keyword for all would cost every call
KNOWN = {
    "broadcast_to": {"size"}, "dsplit": {"indices", "sections"}, "expand": {"implicit", "size"},
    "hsplit": {"indices", "sections"}, "requires_grad_": {"mode"}, "reshape": {"shape"},
    "rot90": {"dims"}, "to_dense": {"dtype", "masked_grad"},
    "tensor_split": {"indices", "sections", "tensor_indices_or_sections"},
    "view": {"dtype", "size"}, "vsplit": {"indices", "sections"},
    "new": {"cls", "other", "size", "storage"},
}  # fmt: skip


def keywords():
    """The keywords of every method, over all of its overloads."""
    stubs = ast.parse((Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text())
    methods = next(n for n in stubs.body if getattr(n, "name", "") == "TensorBase")
    found = {}
    for f in methods.body:
        if isinstance(f, ast.FunctionDef) and not f.name.startswith("_"):
            named = {a.arg for a in (*f.args.args, *f.args.kwonlyargs)}
            found.setdefault(f.name, set()).update(named - {"self", "out"})
    return found


def test_methods_take_their_arguments_by_pytorchs_keywords():
    wrong, looked = {}, 0
    for name, wanted in keywords().items():
        method = getattr(ours.Tensor, name, None)
        if method is None or not callable(method):
            continue
        parameters = inspect.signature(method).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            continue
        looked += 1
        named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        missing = wanted - named
        if missing != KNOWN.get(name, set()):
            wrong[name] = missing
    assert not wrong
    assert looked > 250


@pytest.mark.parametrize(
    "call",
    [
        "x.clone(memory_format=torch.preserve_format)",
        "x.cpu(memory_format=torch.preserve_format)",
        "x.double(memory_format=torch.preserve_format)",
        "x.type(torch.float64, non_blocking=True)",
        "x.pow(exponent=3)",
        "x.mul_(other=2)",
        "x.repeat(repeats=(2, 1))",
        "x.tile(dims=(2, 1))",
        "x.sum_to_size(size=(1, 3))",
        "x.split(split_size=1, dim=1)",
        "torch.split(tensor=x, split_size_or_sections=[1, 1])",
        "torch.chunk(input=x, chunks=2)",
        "x.remainder(other=0.5)",
        "x.atan2(other=x + 1)",
        "x.mm(mat2=x.t())",
        "x[0].outer(vec2=x[1])",
        "x.nansum(dtype=torch.float64)",
        "x.nanmean(dim=1, dtype=torch.float64)",
        "x.gather(dim=0, index=torch.tensor([[0, 1, 0]]), sparse_grad=False)",
    ],
)
def test_they_mean_what_they_mean_there(call):
    values = [[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]]
    results = []
    for library in (torch, ours):
        out = eval(call, {"torch": library, "x": library.tensor(values)})
        out = [o.tolist() for o in out] if isinstance(out, (tuple, list)) else out.tolist()
        results.append(out)
    assert str(results[1]) == str(results[0]) or torch.allclose(
        torch.tensor(results[1]), torch.tensor(results[0])
    )
