"""``torch.distributed.algorithms.model_averaging.utils``: means of parameters over ranks."""

from collections.abc import Iterable
from typing import Any

from fx.nn.data_parallel.local_sgd import average as average_parameters
from fx.nn.data_parallel.local_sgd import with_gradients as get_params_to_average

__all__ = [
    "average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average",
]  # fmt: skip


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Give those that have a gradient their means over the ranks.

    Args:
        params: parameters, or groups of an optimizer.
        process_group: the ranks; None: all.
    """
    average_parameters(get_params_to_average(params), process_group)
