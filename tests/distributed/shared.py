"""What cases of ranks share: what ran on parts, what is refused, and a step to train."""

from contextlib import contextmanager

import fx
import fx.nn.functional as F
from fx import nn
from fx.distributed import propagation


@contextmanager
def programs():
    """What ran inside on parts."""
    ran, run = [], propagation.Local.run

    def noting(self, arrays):
        ran.append(self)
        return run(self, arrays)

    propagation.Local.run = noting
    try:
        yield ran
    finally:
        propagation.Local.run = run


def refused(kind, words, function):
    """A call raises an error of a kind, with some words."""
    try:
        function()
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError("nothing was raised")


def perceptron(width):
    """A module of two layers, the same in every process."""
    fx.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


def trainer(net):
    """A step of SGD that gives the loss."""
    optimizer = fx.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step
