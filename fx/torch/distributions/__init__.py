"""``torch.distributions``: distributions, transforms and constraints with PyTorch's names."""

from importlib import import_module as _import

from fx.ops.operands import offered as _offered
from fx.torch._aliases import ALIASES as _ALIASES
from fx.torch.distributions import constraints, kl_pairs, transforms, utils
from fx.torch.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    Laplace,
    Normal,
    Uniform,
)
from fx.torch.distributions.counts import Multinomial, NegativeBinomial
from fx.torch.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from fx.torch.distributions.distribution import Distribution, ExponentialFamily, Independent
from fx.torch.distributions.gammas import (
    Beta,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from fx.torch.distributions.kl import kl_divergence, register_kl
from fx.torch.distributions.matrices import LKJCholesky, Wishart
from fx.torch.distributions.mixture import MixtureSameFamily
from fx.torch.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal
from fx.torch.distributions.positive import (
    GeneralizedPareto,
    HalfCauchy,
    HalfNormal,
    Kumaraswamy,
    LogNormal,
    Pareto,
    Weibull,
)
from fx.torch.distributions.registry import biject_to, transform_to
from fx.torch.distributions.relaxed import (
    ContinuousBernoulli,
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from fx.torch.distributions.transformed import LogisticNormal, TransformedDistribution
from fx.torch.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from fx.torch.distributions.von_mises import VonMises

__all__ = _offered(
    globals(), "biject_to", "constraints", "identity_transform", "transform_to", "transforms"
)


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if f"{__name__}.{name}" in _ALIASES:
        return _import(f"{__name__}.{name}")
    raise AttributeError(f"fx has no torch.distributions.{name}; there is {', '.join(__all__)}")
