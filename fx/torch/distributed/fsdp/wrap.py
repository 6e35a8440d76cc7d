"""``torch.distributed.fsdp.wrap``: which modules become units."""

from fx.nn.fully_sharded.wrapping import CustomPolicy as CustomPolicy
from fx.nn.fully_sharded.wrapping import ModuleWrapPolicy as ModuleWrapPolicy
from fx.nn.fully_sharded.wrapping import always_wrap_policy as always_wrap_policy
from fx.nn.fully_sharded.wrapping import enable_wrap as enable_wrap
from fx.nn.fully_sharded.wrapping import lambda_auto_wrap_policy as lambda_auto_wrap_policy
from fx.nn.fully_sharded.wrapping import size_based_auto_wrap_policy as size_based_auto_wrap_policy
from fx.nn.fully_sharded.wrapping import (
    transformer_auto_wrap_policy as transformer_auto_wrap_policy,
)
from fx.nn.fully_sharded.wrapping import wrap as wrap
