"""Memory of a compiled step of a fully sharded model, in two ranks."""

import fx
from fx.nn.fully_sharded import fully_shard
from fx.transforms.jitting.compiled import executable_of
from tests.distributed.cases_fsdp import draws
from tests.distributed.cases_fsdp_jit import messages, programs, step_of


class Keeps(fx.nn.Sequential):
    """Layers that run again for their gradients."""

    def forward(self, x):
        for layer in self:
            x = fx.checkpoint(layer)(x)
        return x


def case_few_layers_are_whole_at_a_time():
    n, depth, kept = 96, 6, []
    layer = n * n * 8
    for kind, reshard in (
        (fx.nn.Sequential, True),
        (Keeps, True),
        (fx.nn.Sequential, False),
    ):
        model = kind(*[fx.nn.Linear(n, n, bias=False).double() for _ in range(depth)])
        for part in model:
            fully_shard(part, reshard_after_forward=reshard)
        fully_shard(model)
        step = fx.jit(step_of(model, fx.optim.SGD(model.parameters(), lr=0.1)))
        with programs() as ran:
            for _ in range(2):
                step(draws(2, n), draws(2, n, seed=1))
        segments = executable_of(ran[-1].graph)._program.recipe.segments
        kept.append(max(s.part.arena for s in segments) / layer)
        assert messages(ran[-1])[0] == [2 * depth if reshard else depth, depth]
    lets_go, again, keeps = kept
    # a whole layer and a whole gradient; what stays besides are parts, which are results
    assert max(lets_go, again) < 2.5, kept
    assert keeps > depth - 1, kept
