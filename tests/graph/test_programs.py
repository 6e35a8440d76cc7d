"""Random programs: after every pass, and after all of them, the interpreter gives the same."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fx
import fx.graph.passes as passes
from fx.errors import FxError
from fx.graph import Graph, Node, optimize, validate
from fx.graph.passes.tiers import composites
from fx.graph.printing import subgraphs
from fx.graph.staging import stage
from fx.ops.convert import from_array
from fx.testing.case import cast, draw
from fx.testing.laws import all_primitives
from tests.graph.tools import Program, argument, assert_close, assert_same_bits, run

EXACT = ["simplify", "fold", "cse", "dce", "inline", "strength", "decompose"]
seeds = st.integers(0, 2**32 - 1)


def _pass(name):
    return {
        "all": lambda graph: optimize(graph),
        "keeping derivatives": lambda graph: optimize(graph, keep_derivatives=True),
        "composites": lambda graph: passes.decompose(graph, composites()),
    }.get(name) or getattr(passes, name)


@pytest.mark.parametrize("name", [*EXACT, "all", "keeping derivatives"])
@settings(max_examples=60)
@given(seed=seeds)
def test_no_bit_changes(name, seed):
    program = Program(seed, exact=True)
    want = run(program.graph, *program.arrays)
    new = validate(_pass(name)(program.graph))
    assert_same_bits(run(new, *program.arrays), want)


@pytest.mark.parametrize("name", ["simplify", "strength", "composites", "all"])
@settings(max_examples=60)
@given(seed=seeds)
def test_sums_and_products_change_by_roundings(name, seed):
    program = Program(seed, exact=False)
    want = run(program.graph, *program.arrays)
    new = validate(_pass(name)(program.graph))
    assert_close(run(new, *program.arrays), want)


@settings(max_examples=40)
@given(seed=seeds)
def test_programs_shrink_and_settle(seed):
    graph = Program(seed, steps=60).graph
    once = optimize(graph)
    assert len(once.nodes) <= len(passes.dce(graph).nodes) + 2  # a sum may become two nodes
    assert optimize(once) is once


@pytest.mark.parametrize("name", list(all_primitives()))
def test_every_primitive_survives(name):
    """Its samples as graphs, on inputs and on constants."""
    primitive = all_primitives()[name]
    for seed in range(4):
        drawn = draw(primitive, random.Random(seed))
        bodies = subgraphs(drawn.params)  # which are staged for what was drawn
        sample = cast(drawn, np.dtype("float32")) if seed % 2 and not bodies else drawn
        tensors = [from_array(np.asarray(a), "cpu") for a in sample.args]
        for constant in (False, True):
            values = [argument(a) for a in sample.args]
            inputs = values
            if constant:
                from fx.graph import constant_value

                values, inputs = [constant_value(t) for t in tensors], []
            try:
                node = Node(primitive, values, sample.params)
            except FxError:
                continue
            graph = Graph(inputs, [node], node.outs)
            arrays = [] if constant else sample.args
            new = validate(optimize(graph))
            assert_close(run(new, *arrays), run(graph, *arrays))


@pytest.mark.parametrize("name", [n for n, p in all_primitives().items() if p.differentiable])
def test_graphs_of_reverse_rules_are_valid(name):
    """As of a scatter, whose rule gave ``x.size`` for a size, which compilers took for no int."""
    primitive = all_primitives()[name]
    for seed in range(6):
        sample = draw(primitive, random.Random(seed))
        needs = tuple([True if np.asarray(a).dtype.kind in "fc" else None for a in sample.args])

        def pulled(*xs, needs=needs, params=sample.params):
            outs = primitive(*xs, **params)
            found = outs if primitive.multiple else (outs,)
            pullback = primitive.vjp(needs, *xs, **params)
            cts = [fx.ones_like(o) for o in found]
            if pullback is None:
                return []
            saved = [found[i] for i in primitive.saves]
            grads = pullback(cts if primitive.multiple else cts[0], *saved)
            return [g for g in grads if g is not None]

        try:
            graph, _ = stage(pulled, [argument(a).spec for a in sample.args], name)
        except (fx.errors.BackwardError, fx.errors.ArgumentError) as error:
            assert "has no derivative of" in str(error)  # of a function among many, by name
            continue
        validate(graph)
