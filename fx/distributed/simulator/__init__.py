"""How long a step takes on machines that one has not got: ``simulate``; see README.md."""

from fx.distributed.simulator.cluster import Cluster, Link
from fx.distributed.simulator.layers import Layer, layers_of
from fx.distributed.simulator.measure import measure
from fx.distributed.simulator.report import Report
from fx.distributed.simulator.step import simulate
from fx.distributed.simulator.strategy import Strategy

__all__ = ["Cluster", "Layer", "Link", "Report", "Strategy", "layers_of", "measure", "simulate"]
