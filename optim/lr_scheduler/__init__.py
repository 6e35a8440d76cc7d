"""Learning-rate schedulers: each ``step()`` sets the learning rate of every group."""

from fx.ops.operands import offered as _offered
from fx.optim.lr_scheduler.base import LRScheduler
from fx.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from fx.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from fx.optim.lr_scheduler.cyclic import CyclicLR
from fx.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from fx.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
from fx.optim.lr_scheduler.one_cycle import OneCycleLR
from fx.optim.lr_scheduler.plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # the name that PyTorch gave it before 2.0

__all__ = _offered(globals())
