"""One module under two names: ``fx.torch.nn`` is ``fx.nn``, and so is everything below it.

``import fx.torch.nn.functional as F`` asks Python's import system for a module of that name. The
finder here answers with the module that fx already has, so that there is never a second copy of
a class and ``isinstance(layer, torch.nn.Module)`` holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from fx.torch._absent import room_spec

ALIASES = {
    "fx.torch.nn": "fx.nn",
    "fx.torch.nn.modules": "fx.nn.modules",
    "fx.torch.optim": "fx.optim",
    "fx.torch.signal": "fx.signal",
    "fx.torch.utils.data": "fx.data",
    "fx.torch.autograd.functional": "fx.autograd.functional",
    "fx.torch.autograd.function": "fx.autograd.function",
    "fx.torch.autograd.gradcheck": "fx.autograd.gradcheck",
    "fx.torch.nn.parallel.distributed": "fx.nn.parallel",
    "fx.torch.nn.parallel.data_parallel": "fx.nn.replicas",
    "fx.torch.nn.parallel.parallel_apply": "fx.nn.replicas",
    "fx.torch.nn.parallel.replicate": "fx.nn.replicas",
    "fx.torch.nn.parallel.scatter_gather": "fx.nn.replicas",
}
_DISTRIBUTED = {  # files of PyTorch whose names are in one of fx
    "": "_tensor=tensor distributed_c10d= constants= run=fx.run launch=fx.run",
    "._composable": "fsdp=fsdp",
    ".checkpoint": """
        api=checkpoint default_planner=checkpoint filesystem=checkpoint hf_storage=checkpoint
        metadata=checkpoint planner=checkpoint quantized_hf_storage=checkpoint staging=checkpoint
        state_dict_loader=checkpoint state_dict_saver=checkpoint storage=checkpoint""",
    ".elastic.multiprocessing": "api=elastic.multiprocessing",
    ".fsdp": "api=fsdp fully_sharded_data_parallel=fsdp",
    ".nn": "api=nn api.remote_module=nn",
    ".optim": "optimizer=optim post_localSGD_optimizer=optim zero_redundancy_optimizer=optim",
    ".rpc": "api=rpc backend_registry=rpc options=rpc",
    ".tensor": "device_mesh=device_mesh",
    ".tensor.parallel": "api=tensor.parallel loss=tensor.parallel style=tensor.parallel",
}
ALIASES |= {
    f"fx.torch.distributed{room}.{name}": (
        file if file.startswith("fx.") else f"fx.torch.distributed.{file}".rstrip(".")
    )
    for room, files in _DISTRIBUTED.items()
    for name, _, file in (each.partition("=") for each in files.split())
}
_DISTRIBUTIONS = {  # PyTorch has a file for each
    "continuous": "normal laplace cauchy gumbel uniform exponential",
    "counts": "negative_binomial multinomial",
    "discrete": "bernoulli geometric poisson categorical binomial",
    "distribution": "exp_family independent",
    "gammas": "gamma chi2 inverse_gamma dirichlet beta studentT fishersnedecor",
    "matrices": "wishart lkj_cholesky",
    "mixture": "mixture_same_family",
    "multivariate": "multivariate_normal lowrank_multivariate_normal",
    "positive": """
        log_normal half_normal half_cauchy weibull pareto kumaraswamy generalized_pareto""",
    "registry": "constraint_registry",
    "relaxed": "one_hot_categorical relaxed_bernoulli relaxed_categorical continuous_bernoulli",
    "transformed": "transformed_distribution logistic_normal",
}
ALIASES |= {
    f"fx.torch.distributions.{name}": f"fx.torch.distributions.{file}"
    for file, names in _DISTRIBUTIONS.items()
    for name in names.split()
}


def original(name: str) -> str | None:
    """The name under which fx has the module ``name``; None if it has no other."""
    for alias in sorted(ALIASES, key=len, reverse=True):
        if name == alias or name.startswith(alias + "."):
            return ALIASES[alias] + name[len(alias) :]
    return None


class Aliases(MetaPathFinder, Loader):
    """Finds modules by their PyTorch name and loads them by giving the one that is there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an alias, None for every other module."""
        if not name.startswith("fx.torch."):
            return None
        room = room_spec(name)
        if room is not None:
            return room
        real = original(name)
        if real is None or find_spec(real) is None:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself; its own spec is kept for ``exec_module`` to give back."""
        module = import_module(original(spec.name) or "")
        spec.loader_state = module.__spec__
        for alias, real in ALIASES.items():  # an import below would put a module over a function
            home, _, last = alias.rpartition(".")
            if home == spec.name and callable(getattr(module, last, None)):
                sys.modules.setdefault(alias, import_module(real))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs twice; the spec that the import system replaced comes back."""
        module.__spec__ = getattr(module.__spec__, "loader_state", module.__spec__)


def install() -> None:
    """Put the finder in front of those that look into folders."""
    if not any(isinstance(finder, Aliases) for finder in sys.meta_path):
        sys.meta_path.insert(0, Aliases())
