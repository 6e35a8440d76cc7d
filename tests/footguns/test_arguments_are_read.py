"""Arguments that no body reads: each is known here, with the reason why it may be ignored."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("nn", "optim", "data", "fx/torch", "fx/ops")
# by the argument's name: what it asks for makes no difference to any number
REASONS = {
    "where memory lies": "layout check_layout memory_format pin_memory non_blocking "
    "stream copy device stride parameters_as_bucket_view offload_to_cpu",
    "values never change, so nothing is done in place": "inplace",
    "one way to compute it, which is all of them": "foreach stable sorted sparse sparse_grad "
    "cudnn_enable cudnn_enabled output_size use_reentrant preserve_rng_state determinism_check "
    "debug context_fn set_priority",
    "how PyTorch compiles, warns or counts": "fullgraph dynamic backend mode options recursive "
    "reason warn_only cache_enabled including_emulation strict enable_df_api_tracing check_nan",
    "advice to JAX's compiler or to NumPy, by which no number changes": "indices_are_sorted "
    "unique_indices precision optimize bucket_size",
    "a question with one answer": "device_type obj input group enabled device_ids output_device "
    "dim download",
    "part of a signature that others call": "path target params num_averaged t eps requires_grad "
    "collate_fn_map context number y is_last_joiner needs args out nonwrapped_numel",
}
KNOWN = {name for names in REASONS.values() for name in names.split()}


def unread(path):
    """``(function, argument)`` of public functions of a file."""
    for f in ast.walk(ast.parse(path.read_text())):
        if not isinstance(f, ast.FunctionDef) or (f.name[0] == "_" and f.name != "__init__"):
            continue
        body = [
            s for s in f.body if not (isinstance(s, ast.Expr) and type(s.value) is ast.Constant)
        ]
        if all(isinstance(s, ast.Raise | ast.Pass) for s in body):
            continue  # it refuses, or is there to be overridden
        used = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
        arguments = [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs]
        if "locals" not in used:
            for name in (a.arg for a in arguments):
                if name not in used and name not in ("self", "cls") and name[0] != "_":
                    yield f.name, name


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_argument_is_read(folder):
    found = [
        f"{path.relative_to(ROOT)}: {function}({name})"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for function, name in unread(path)
        if name not in KNOWN
    ]
    assert not found, "accepted and ignored:\n" + "\n".join(found)


def test_an_argument_that_is_not_read_is_found(tmp_path):
    path = tmp_path / "f.py"
    path.write_text("def f(x, weight):\n    return x\n")
    assert list(unread(path)) == [("f", "weight")]
