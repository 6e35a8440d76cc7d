"""Shardings: constraints, doors of jitted functions, parts under jit; what is wrong is named."""

import pytest

import fx
import fx.distributed as dist
from fx.distributed import Partial, Shard
from fx.errors import FxError
from tests.distributed.ranks import SIZES, cases

CASES = cases("cases_shardings.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", SIZES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_shardings.py", size)[case]


@pytest.fixture
def mesh():
    return dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))


def constrained(spec):
    return lambda m: fx.with_sharding_constraint(fx.ones((2, 2)), fx.NamedSharding(m, spec))


def jitted(*args, **shardings):
    return lambda m: fx.jit(
        lambda *xs: xs, **{k: s(m) if callable(s) else s for k, s in shardings.items()}
    )(*args)


def rows(m):
    return fx.NamedSharding(m, fx.P("dp"))


LANES = fx.Mesh((2,), ("i",), lanes=True)
BAD = {
    "lies on none; write fx.NamedSharding(mesh, P('dp'))": lambda m: fx.with_sharding_constraint(
        fx.ones(2), fx.P("dp")
    ),
    "P('dp') is about the mesh of a tensor": lambda m: fx.jit(lambda x: x, in_shardings=fx.P("dp"))(
        fx.ones(2)
    ),
    "has no axis 'pp'": constrained(fx.P("pp")),
    "names an axis of the mesh twice": constrained(fx.P("dp", "dp")),
    "in the order of the mesh: ('dp', 'tp')": constrained(fx.P(("tp", "dp"))),
    "3 entries for a tensor of shape (2, 2)": constrained(fx.P(None, None, "dp")),
    "a placement for each of the 2 axes": constrained([Shard(0)]),
    "Shard(dim=2) of a tensor of 2 axes": constrained([Shard(2), Shard(0)]),
    "have no addends": constrained([Partial(), Shard(0)]),
    "got 'rows'": constrained("rows"),
    "mesh must be a fx.Mesh": lambda m: fx.NamedSharding((1,), fx.P()),
    "hold no parts of tensors": lambda m: fx.with_sharding_constraint(
        fx.ones(2), fx.NamedSharding(LANES, fx.P("i"))
    ),
    "shardings={'a': None} is no prefix": lambda m: fx.with_sharding_constraint(
        [fx.ones(2)], {"a": None}
    ),
    "in_shardings=(None, None) is no prefix": jitted(fx.ones(2), in_shardings=(None, None)),
    "out_shardings=[None, None] is no prefix": jitted(fx.ones(2), out_shardings=[None, None]),
    "lists of placements, or pytrees of them, got 3": jitted(fx.ones(2), in_shardings=(3,)),
    "pass y without a keyword": lambda m: fx.jit(lambda x, y: x, in_shardings=rows(m))(
        fx.ones(2), y=fx.ones(2)
    ),
    "are of functions; jit one that calls the module": lambda m: fx.jit(
        fx.nn.Linear(2, 2), in_shardings=rows(m)
    ),
    "tensors are parts": lambda m: fx.shard_map(
        lambda x: fx.with_sharding_constraint(x, rows(m)), m, fx.P("dp"), fx.P("dp")
    )(fx.ones(2)),
    "the tensor lies on": lambda m: fx.with_sharding_constraint(
        dist.distribute_tensor(fx.ones(2), dist.init_device_mesh("cpu", (1,))), rows(m)
    ),
    "got float32[2]@meta": lambda m: fx.with_sharding_constraint(
        fx.ones(2, device="meta"), rows(m)
    ),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input(mesh, words):
    with pytest.raises(FxError) as found:
        BAD[words](mesh)
    assert words in str(found.value)


def test_static_arguments_have_no_sharding(mesh):
    f = fx.jit(lambda n, x: x * n, static_argnums=0, in_shardings=(rows(mesh),))
    assert f(3, fx.ones(2)).full_tensor().tolist() == [3.0, 3.0]
    assert f(4, fx.ones(2)).placements == (Shard(0), dist.Replicate())


def test_what_has_no_sharding_is_the_object_that_it_was(mesh):
    model, seen = fx.nn.Linear(2, 1), []

    @fx.jit(in_shardings=(None, rows(mesh), None), out_shardings=(rows(mesh), None))
    def step(model, x, options):
        with fx.no_grad():
            model.bias += 1.0
        seen.append(options is kept)
        return x * 2, {"b": options["b"], "a": 1}

    kept, before = {"b": [3]}, model.bias.detach()
    for _ in range(3):
        out, rest = step(model, fx.ones(4), kept)
        assert out.placements[0] == Shard(0) and list(rest) == ["b", "a"] and rest["b"] is kept["b"]
    assert (model.bias - before).tolist() == [3.0]
    with pytest.raises(FxError, match="parameters of Linear stay where they are; write None"):
        fx.jit(lambda m, x: x, in_shardings=rows(mesh))(model, fx.ones(2))
    x = {"b": fx.ones(2), "a": [fx.ones(2)]}
    found = fx.with_sharding_constraint(x, {"b": rows(mesh), "a": None})
    assert found["a"] is x["a"] and found["b"].placements[0] == Shard(0)


def test_numbers_and_arrays_come_to_the_mesh(mesh):
    import numpy as np

    f = fx.jit(lambda x, y: x + y, in_shardings=rows(mesh), out_shardings=None)
    assert f(np.ones(2), fx.ones(2)).placements[0] == Shard(0)
    plain = fx.NamedSharding(mesh, fx.P())
    g = fx.jit(lambda n: n * 2, in_shardings=plain)
    assert [g(n).item() for n in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]


def test_what_the_first_rank_sends_is_no_node(mesh):
    place = (mesh, [Shard(0), dist.Replicate()])
    for f in (
        lambda x: dist.distribute_tensor(x, *place) * 2,
        lambda x: dist.DTensor.from_local(x, *place, run_check=True) * 2,
    ):
        with pytest.warns(
            RuntimeWarning, match=r"sends what the first rank has; .* write fx\.with"
        ):
            found = fx.jit(f)(fx.ones(2))
        assert found.full_tensor().tolist() == [2.0, 2.0]


def test_a_plain_tensor_does_not_meet_one_of_a_mesh_under_jit_either(mesh):
    x, plain = fx.with_sharding_constraint(fx.ones((2, 4)), rows(mesh)), fx.ones(4)
    f = fx.jit(lambda x: (x * plain).full_tensor())
    for _ in range(3):
        with pytest.raises(FxError, match="multiply got tensors on different devices"):
            f(x)
        with dist.implicit_replication():
            assert f(x).tolist() == [[1.0] * 4] * 2


def test_the_name_of_jax_is_there_and_loads_nothing_before():
    import subprocess
    import sys

    code = (
        "import sys, fx.lax as lax; assert 'with_sharding_constraint' in dir(lax);"
        "assert 'fx.distributed' not in sys.modules; import fx;"
        "assert lax.with_sharding_constraint is fx.with_sharding_constraint"
    )
    assert not subprocess.run([sys.executable, "-c", code], check=False).returncode
