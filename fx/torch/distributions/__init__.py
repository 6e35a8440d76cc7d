"""``torch.distributions``: the common ones, with PyTorch's names."""

from fx.ops.operands import offered as _offered
from fx.torch.distributions.continuous import (
    Beta,
    Dirichlet,
    Exponential,
    Gamma,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from fx.torch.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from fx.torch.distributions.distribution import Distribution, Independent
from fx.torch.distributions.kl import kl_divergence, register_kl

__all__ = _offered(globals())


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"fx has no torch.distributions.{name}; there is {', '.join(__all__[:-2])}"
    )
