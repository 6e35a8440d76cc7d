"""The face as a whole: one module under two names, coverage, errors that say what to write."""

import copy
import inspect
import itertools
import json
import pickle
import re
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from fx.errors import DeviceError, InPlaceError
from tests.torch import expressions
from tests.torch import test_rarer_names as rarer

PROGRAM = """
import fx.torch.nn.functional as F
import fx.torch as torch, fx.torch.utils.data
import fx.torch as torch
import fx.torch.nn as nn
import fx.torch.optim as optim
import fx.torch.backends.cudnn as cudnn
import fx.torch.multiprocessing as mp
import fx.torch.nn.init as init
import fx.torch.nn.utils.rnn as rnn
from fx.torch import Tensor, autograd, device, nn as nn2, optim as optim2
from fx.torch.autograd import Function, Variable
from fx.torch.cuda.amp import GradScaler, autocast
from fx.torch.distributions import Normal
from fx.torch.func import functional_call, grad, vmap
from fx.torch.nn import Module, functional
from fx.torch.nn.modules.module import Module as Module2
from fx.torch.nn.parameter import Parameter
from fx.torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from fx.torch.optim.lr_scheduler import StepLR
from fx.torch.optim.optimizer import Optimizer
from fx.torch.utils.checkpoint import checkpoint
from fx.torch.utils.data import DataLoader, Dataset
from fx.torch.utils.data.dataloader import DataLoader as DataLoader2
import fx, sys
import fx.nn.functional, fx.data

assert nn is nn2 is fx.nn and F is functional is fx.nn.functional and optim is optim2 is fx.optim
assert Module is Module2 is fx.nn.Module and Parameter is fx.nn.Parameter
assert DataLoader is DataLoader2 is fx.data.DataLoader and torch.utils.data is fx.data
assert Tensor is fx.Tensor and torch.optim.lr_scheduler.StepLR is StepLR
assert isinstance(nn.Linear(2, 2), torch.nn.Module)
assert fx.nn.__name__ == "fx.nn" and fx.nn.__spec__.name == "fx.nn"
owners = {}
for name, module in sys.modules.items():
    if name.startswith("fx.") and getattr(module, "__file__", None):
        assert owners.setdefault(module.__file__, module) is module, name
"""


def test_imports_of_every_kind_in_any_order():
    """In a process of its own: what is imported first decides how modules are found."""
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], check=True)


def test_import_of_fx_does_not_load_it():
    code = "import fx, sys; assert not [m for m in sys.modules if m.startswith('fx.torch')]"
    subprocess.run([sys.executable, "-c", code], check=True)


def public(module):
    return {
        n for n in dir(module) if not n.startswith("_") and inspect.isroutine(getattr(module, n))
    }


_NOT_COMPARED = """
    alpha_dropout are_deterministic_algorithms_enabled compile compiled_with_cxx11_abi cond
    empty_strided feature_alpha_dropout from_dlpack get_autocast_dtype get_default_device
    get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state
    initial_seed is_anomaly_enabled is_autocast_enabled is_distributed is_inference
    is_inference_mode_enabled is_storage is_warn_always_enabled load manual_seed rrelu save seed
    set_anomaly_enabled set_autocast_dtype set_autocast_enabled set_default_device
    set_default_dtype set_default_tensor_type
    set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads
    set_printoptions set_rng_state set_warn_always to_dlpack unfold_copy
    use_deterministic_algorithms while_loop
"""
WITHOUT_EXPRESSION = set(_NOT_COMPARED.split())


def test_every_function_is_compared_with_torch():
    """A function of the face that no expression calls is a function that nobody compared."""
    lines = "".join([expressions.LINES, *rarer.LINES, *rarer.SETTINGS]) + " ".join(
        f"torch.{name}("
        for words in (
            expressions.UNARY, expressions.UNARY_UNIT, expressions.UNARY_POSITIVE,
            expressions.BINARY, expressions.BITS,
        )
        for name in words.split()
    )  # fmt: skip
    called = set(re.findall(r"torch\.(\w+)\(", lines))
    both = public(fx.torch) & public(torch)
    assert sorted(both - called - WITHOUT_EXPRESSION) == []
    assert sorted(public(fx.torch) - set(dir(torch))) == []


def test_signatures_take_torchs_names():
    """Each parameter that torch's own documentation string names is taken here by that name."""
    from fx.torch._functions import rows

    wrong = []
    for name, _, _ in rows():
        listed = re.match(rf"\s*{name}\((.*?)\) ->", torch.__dict__[name].__doc__ or "")
        if not listed:
            continue
        parts = re.split(r",(?![^(\[]*[)\]])", re.sub(r"\[,[^\]]*\]", "", listed[1]))
        words = [w for part in parts if (w := re.split("[:=]", part)[0].strip()) not in ("*", "")]
        taken = inspect.signature(getattr(fx.torch, name)).parameters
        wrong += [f"{name}: {w}" for w in words if w not in taken]
    outdated = ["true_divide: dividend", "true_divide: divisor", "squeeze: List[int]]]"]
    assert sorted(wrong) == sorted([*outdated, "broadcast_to: shape", "concatenate: axis"])


# what is not there ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gelu", "write torch.nn.functional.gelu"),
        ("nonsense", "fx has no torch.nonsense"),
        ("tranpose", "write torch.transpose"),
    ],
)
def test_missing_names_say_what_to_write(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(fx.torch, name)
    assert not hasattr(fx.torch, name)


def test_missing_names_of_rooms():
    for owner, name, words in (
        (fx.torch.jit, "script", "write @fx.jit or torch.compile"),
        (fx.torch.linalg, "nothing", "no torch.linalg.nothing"),
        (fx.torch.special, "nothing", "there is: "),
        (fx.torch.utils, "cpp_extension", "no torch.utils.cpp_extension"),
        (fx.torch.distributed, "nonsense", "fx has no torch.distributed.nonsense"),
    ):
        with pytest.raises(AttributeError, match=words):
            getattr(owner, name)
    with pytest.raises(ImportError):
        from fx.torch.nn import nonsense  # noqa: F401


def test_what_would_write_is_refused():
    x = fx.torch.ones(2)
    with pytest.raises(InPlaceError, match=r"write x = torch.add\(input, other, alpha=alpha\)"):
        fx.torch.add(x, x, out=x)
    with pytest.raises(InPlaceError, match=r"write x = torch.zeros\(size\)"):
        fx.torch.zeros(2, out=x)


@pytest.mark.parametrize(
    "name", ["sum", "add", "max", "squeeze", "exp", "gather", "reshape", "where"]
)
def test_lists_are_refused_as_in_torch(name):
    arguments = {"add": (1,), "gather": (0, None), "reshape": ((1,),), "where": (1, 2)}.get(
        name, ()
    )
    with pytest.raises(TypeError):
        getattr(torch, name)([1.0], *arguments)
    with pytest.raises(TypeError):
        getattr(fx.torch, name)([1.0], *arguments)


# devices and switches ---------------------------------------------------------------------------


def test_cuda_is_not_there():
    t = fx.torch
    device = t.device("cuda" if t.cuda.is_available() else "cpu")
    assert t.ones(2).to(device).device.type == "cpu"
    assert t.cuda.device_count() == 0 and not t.backends.cudnn.is_available()
    t.cuda.manual_seed_all(0)
    t.cuda.empty_cache()
    for call in (t.cuda.current_device, t.ones(2).cuda):
        with pytest.raises(DeviceError, match="cuda"):
            call()
    with pytest.raises(RuntimeError, match="cuda"):
        t.ones(2).to("cuda")
    t.backends.cudnn.deterministic = True
    assert t.backends.cudnn.deterministic


def test_switches_are_read_back():
    t = fx.torch
    t.set_float32_matmul_precision("high")
    assert t.get_float32_matmul_precision() == "high"
    t.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="not one of"):
        t.set_float32_matmul_precision("low")
    t.use_deterministic_algorithms(True)
    assert t.are_deterministic_algorithms_enabled()
    t.set_default_tensor_type(t.DoubleTensor)
    assert t.tensor(1.0).dtype == t.float64
    t.set_default_tensor_type("torch.FloatTensor")
    assert t.get_default_dtype() == t.float32


def test_mixed_precision_for_a_gpu_is_off():
    """The loop that scripts write for a GPU runs, and trains in the dtype of the weights."""
    t = fx.torch
    p = t.nn.Parameter(t.ones(2))
    optimizer = t.optim.SGD([p], lr=0.5)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scalers = t.amp.GradScaler("cuda", enabled=False), t.cuda.amp.GradScaler()
    for scaler in scalers:
        with t.cuda.amp.autocast(enabled=False), t.autocast("cuda", enabled=False):
            loss = (p * p).sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    np.testing.assert_array_equal(p.detach().numpy(), [0.0, 0.0])


def test_grad_modes_as_decorators_and_contexts():
    t = fx.torch

    @t.no_grad()
    def one(x):
        return x * 2

    @t.inference_mode()
    def two(x):
        return x * 2

    x = t.ones(2, requires_grad=True)
    assert not one(x).requires_grad and not two(x).requires_grad
    with t.set_grad_enabled(False):
        assert not t.is_grad_enabled()
    with t.no_grad(), t.enable_grad():
        assert (x * 2).requires_grad


def test_random_state():
    t = fx.torch
    t.manual_seed(3)
    first, state = t.randn(3), t.get_rng_state()
    second = t.randn(3)
    t.set_rng_state(state)
    assert (t.randn(3) == second).all()
    generator = t.Generator().manual_seed(3)
    assert (t.randn(3, generator=generator) == first).all()
    with t.random.fork_rng():
        t.randn(5)


def test_old_names():
    t = fx.torch
    v = t.autograd.Variable(t.FloatTensor([1.0, 2.0]), requires_grad=True)
    (v * v).sum().backward()
    assert v.grad.tolist() == [2.0, 4.0] and isinstance(v, t.autograd.Variable)
    assert repr(t.Size([2, 3])) == "torch.Size([2, 3])" and t.Size([2]) == (2,)
    assert t.Tensor(2, 3).shape == (2, 3) and t.Tensor(np.ones(2)).dtype == t.float32
    assert t.Tensor(t.nn.Parameter(t.ones(2))).requires_grad is False
    assert pickle.loads(pickle.dumps(t.Tensor([1, 2]))).tolist() == [1, 2]


# compile, checkpoint, func ----------------------------------------------------------------------


def test_compile():
    t = fx.torch
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Dropout(0.5), t.nn.Linear(4, 2))
    compiled = t.compile(model, mode="max-autotune")
    assert isinstance(compiled, t.nn.Module)
    assert next(iter(compiled.state_dict())) == "_orig_mod.0.weight"
    x = t.randn(5, 3)
    compiled.eval()
    assert not model.training and not model[1].training
    np.testing.assert_allclose(compiled(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5)
    compiled.train()
    compiled(x).sum().backward()
    assert model[0].weight.grad is not None

    @t.compile
    def step(a):
        return (a * a).sum()

    @t.compile(fullgraph=True)
    def other(a):
        return a + 1

    assert step(t.ones(3)).item() == 3 and other(t.ones(1)).item() == 2
    assert t.compile(model, disable=True) is model
    assert isinstance(step, type(fx.jit(lambda a: a)))


def test_can_cast_asks_for_kinds():
    names = ["bool", "uint8", "int16", "int64", "half", "bfloat16", "float", "double", "cfloat"]
    for a, b in itertools.product(names, names):
        found, wanted = [t.can_cast(getattr(t, a), getattr(t, b)) for t in (fx.torch, torch)]
        assert found is wanted, (a, b)


def test_control_flow_in_one_graph():
    t = fx.torch
    x = t.ones(3)
    assert t.cond(t.tensor(False), t.sin, t.neg, (x,)).tolist() == [-1, -1, -1]
    done = t.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (t.tensor(0), x))
    assert done[1].tolist() == [8, 8, 8]


def test_checkpoint():
    t = fx.torch
    layer = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.Tanh(), t.nn.Linear(3, 3))
    x = t.ones(2, 3, requires_grad=True)
    layer(x).sum().backward()
    expected, x.grad = x.grad, None
    t.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-6)
    x.grad = None
    t.utils.checkpoint.checkpoint_sequential(layer, 2, x, use_reentrant=False).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-6)


def test_functional_call_and_per_sample_gradients():
    """The recipe of torch.func's tutorials."""
    t = fx.torch
    from fx.torch.func import functional_call, grad, vmap

    model = t.nn.Linear(3, 1)
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p, x, y):
        return ((functional_call(model, p, (x.unsqueeze(0),)) - y) ** 2).mean()

    x, y = t.randn(4, 3), t.randn(4, 1)
    rows = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    assert rows["weight"].shape == (4, 1, 3)
    for i in range(4):
        one = grad(loss)(params, x[i], y[i])["weight"]
        np.testing.assert_allclose(rows["weight"][i].numpy(), one.numpy(), rtol=1e-4, atol=1e-6)


def test_what_forward_does_under_functional_call_is_compiled():
    t = fx.torch
    eager = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4))
    compiled = copy.deepcopy(eager)

    def step(model, x):
        params = {k: p * 2 for k, p in model.named_parameters()}
        return t.func.functional_call(model, params, (x,)).pow(2).sum()

    jitted = fx.jit(partial(step, compiled))
    for i in range(3):
        x = t.arange(12.0).reshape(4, 3) * (i + 1)
        np.testing.assert_allclose(jitted(x).item(), step(eager, x).item(), rtol=1e-5)
    assert jitted.cache_size() == 1 and int(compiled[1].num_batches_tracked) == 3
    mean, expected = compiled[1].running_mean, eager[1].running_mean
    np.testing.assert_allclose(mean.numpy(), expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_randomness_of_vmap(chunk_size):
    t = fx.torch
    x = t.zeros(3, 8)
    for draw in (t.randn_like, lambda row: t.rand(2) + row.sum()):
        same, different = (
            t.func.vmap(draw, randomness=kind, chunk_size=chunk_size)(x)
            for kind in ("same", "different")
        )
        assert bool((same == same[0]).all()), draw
        assert not bool((different[1:] == different[0]).all(1).any())


def test_save_and_load(tmp_path):
    t = fx.torch
    path = tmp_path / "model.pt"
    t.save({"a": t.ones(2), "n": 3}, path)
    assert torch.load(path)["a"].tolist() == [1, 1] and t.load(path)["n"] == 3


def test_star_import_and_dir():
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec("from fx.torch import *", names)
    assert names["nn"] is fx.nn
    for name in dir(fx.torch):
        assert getattr(fx.torch, name) is not None or name in ("newaxis", "__file__")


def test_distributed_rooms_have_the_names_that_scripts_import():
    from importlib import import_module

    for room, names in {
        "_composable": "checkpoint fully_shard",
        "_composable.fsdp": "fully_shard MixedPrecisionPolicy",
        "_functional_collectives": """
            all_gather_tensor all_reduce all_to_all_single broadcast reduce_scatter_tensor
            wait_tensor""",
        "_tensor": "DTensor Shard Replicate distribute_tensor",
        "algorithms._checkpoint.checkpoint_wrapper": """
            apply_activation_checkpointing checkpoint_wrapper CheckpointImpl""",
        "checkpoint": "load_state_dict save_state_dict",
        "checkpoint.default_planner": "DefaultLoadPlanner DefaultSavePlanner",
        "checkpoint.filesystem": "FileSystemReader FileSystemWriter",
        "checkpoint.state_dict_saver": "save async_save",
        "distributed_c10d": "_get_default_group _get_default_store ReduceOp ProcessGroup",
        "elastic.multiprocessing.errors": """
            ChildFailedError ErrorHandler ProcessFailure get_error_handler record""",
        "fsdp": """
            BackwardPrefetch CPUOffload CPUOffloadPolicy FullOptimStateDictConfig
            FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig
            LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OptimStateDictConfig
            ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictType fully_shard""",
        "fsdp.fully_sharded_data_parallel": "FullyShardedDataParallel CPUOffload BackwardPrefetch",
        "fsdp.sharded_grad_scaler": "ShardedGradScaler",
        "fsdp.wrap": """
            always_wrap_policy enable_wrap size_based_auto_wrap_policy transformer_auto_wrap_policy
            wrap ModuleWrapPolicy CustomPolicy""",
        "nn.functional": "all_gather all_reduce all_to_all_single broadcast reduce_scatter",
        "rpc.functions": "async_execution",
        "run": "main",
        "tensor.debug": "CommDebugMode",
        "tensor.device_mesh": "init_device_mesh",
        "tensor.parallel.style": "ColwiseParallel",
        "utils": "_sync_module_states",
    }.items():
        module = import_module(f"fx.torch.distributed.{room}")
        assert not [name for name in names.split() if not hasattr(module, name)], room
    assert fx.torch.futures.Future is import_module("fx.torch.distributed.rpc").Future
    assert fx.torch.futures.Future[fx.Tensor].__args__ == (fx.Tensor,)  # in signatures of hooks
    ReduceOp = fx.torch.distributed.ReduceOp
    assert ReduceOp.RedOpType.MAX is ReduceOp.MAX and ReduceOp.MAX.name == "MAX"
    assert not fx.torch.distributed._rank_not_in_group(None)
    with fx.torch.backends.cudnn.flags(False, benchmark=False):
        pass
    with pytest.raises(AttributeError, match="leave out planner"):
        fx.torch.distributed.checkpoint.SavePlanner


def test_record_tells_the_error_handler():
    from fx.torch.distributed.elastic.multiprocessing.errors import record

    told = []

    class Handler:
        def initialize(self):
            told.append("begin")

        def record_exception(self, error):
            told.append(str(error))

    @record
    def plain(x):
        return x + 1

    def failing():
        raise ValueError("three")

    assert plain(2) == 3
    with pytest.raises(ValueError, match="three"):
        record(failing, Handler())()
    assert told == ["begin", "three"]


def test_an_error_file_has_what_torch_writes_there(tmp_path, monkeypatch):
    from torch.distributed.elastic.multiprocessing import errors as theirs

    from fx.torch.distributed.elastic.multiprocessing import errors

    def failing():
        raise ValueError("three")

    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    for library, other in ((errors, theirs), (theirs, errors)):
        with pytest.raises(ValueError, match="three"):
            library.record(failing)()
        first = other.ProcessFailure(1, 42, 1, str(path))
        assert first.message["message"] == "ValueError: three"
        assert 'raise ValueError("three")' in first.message["extraInfo"]["py_callstack"]
        path.unlink()
    texts = []
    for library in (errors, theirs):
        failures = {r: library.ProcessFailure(r, 40 + r, c, "") for r, c in ((0, -9), (1, 2))}
        failures[0].timestamp, failures[1].timestamp = 200, 100
        error = library.ChildFailedError("train.py", failures)
        rank, failure = error.get_first_failure()
        assert (rank, failure.exitcode, failures[0].signal_name()) == (1, 2, "SIGKILL")
        texts.append([x.split() for x in str(error).split("\n") if "traceback" not in x])
    assert texts[0] == texts[1]

    @errors.record
    def ends():
        raise SystemExit(0)

    assert ends() is None

    @errors.record
    def of_a_child():
        (tmp_path / "child.json").write_text(json.dumps({"message": {
            "message": "E", "extraInfo": {"py_callstack": "E", "timestamp": "7"}}}))  # fmt: skip
        failure = errors.ProcessFailure(0, 1, 3, str(tmp_path / "child.json"))
        raise errors.ChildFailedError("train.py", {0: failure})

    with pytest.raises(errors.ChildFailedError, match="FAILED"):
        of_a_child()
    assert json.loads(path.read_text())["message"]["errorCode"] == 3


def test_modules_wrap_where_a_block_says_so():
    from fx.torch.distributed.fsdp.wrap import enable_wrap, wrap

    told = []
    layer = fx.nn.Linear(2, 2)
    assert wrap(layer) is layer
    with enable_wrap(wrapper_cls=lambda m, **options: told.append(options) or m, a=1):
        assert wrap(layer, b=2) is layer
    assert told == [{"a": 1, "b": 2}]
