"""Text, tables and drawings: readable, aligned, escaped, the same every time."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from fx.graph import Graph, Node
from fx.graph.printing import short, table, text
from fx.graph.render import draw, show
from fx.primitive import registry
from tests.graph.test_passes import Effect
from tests.graph.tools import Build, Program, argument, value

NASTY = '<script>alert("x")</script>&\'--'


def example():
    x, w = argument((32, 10)), argument((10, 4))
    b = Build(x, w)
    product = b.matmul(x, w, line="/home/me/model.py:12")
    scaled = b.multiply(product, value(np.float32(2.5)))
    return b.graph(b.sum(scaled, axes=(0,), keepdims=False), value(np.ones((8, 8))))


def test_text():
    assert text(example()) == (
        "graph(%0: float32[32,10], %1: float32[10,4])\n"
        "  %2: float32[32,4] = matmul(%0, %1)  # model.py:12\n"
        "  %3: float32[32,4] = multiply(%2, 2.5)\n"
        "  %4: float32[4] = sum(%3, axes=(0,), keepdims=False)\n"
        "  return %4, c0:float64[8,8]"
    )
    assert str(example()) == text(example())


@pytest.mark.parametrize(
    ("constant", "shown"),
    [
        (np.float32(1), "1.0"),
        (np.float32(0.1), "0.100000001"),
        (np.float64(-0.0), "-0.0"),
        (np.int64(7), "7"),
        (np.bool_(True), "True"),
        (np.complex64(1 + 2j), "(1+2j)"),
        (np.float32("nan"), "nan"),
        (np.asarray(1.5, ml_dtypes.bfloat16), "1.5"),
        (np.asarray([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
        (np.zeros(7), "c0:float64[7]"),
    ],
)
def test_constants_are_shown_by_value_where_they_are_tiny(constant, shown):
    b = Build()
    assert f"(%0, {shown})" in text(b.graph(b.multiply(_other(b, constant), value(constant))))


def _other(b, constant):
    array = np.asarray(constant)
    return b.full(shape=array.shape, value=1, dtype=array.dtype, device="cpu")


def test_several_results_and_none():
    x = argument((2, 3))
    pooled = Build(argument((1, 1, 4)))
    graph = pooled.graph(
        *pooled.max_pool(
            pooled.inputs[0], window=(2,), stride=(2,), padding=((0, 0),), dilation=(1,)
        )
    )
    assert "%1: float32[1,1,2], %2: int64[1,1,2] = max_pool(%0, window=(2,)" in text(graph)
    shout = Graph([x], [Node(Effect(), [x], {})], [])
    assert text(shout).splitlines()[1:] == ["   = shout(%0)", "  return nothing"]


def test_nested_graphs_are_indented():
    x = argument((3,))
    b = Build(x)
    body = b.graph(b.sin(x))
    graph = Graph([x], [Node(Effect("loop"), [x], {"body": body, "both": (body, 3)})], [x])
    lines = text(graph).splitlines()
    assert "loop(%0, body=<graph>, both=(<graph>, 3))" in lines[1]
    assert lines[2:5] == [
        "    body: graph(%0: float32[3])",
        "      %1: float32[3] = sin(%0)",
        "      return %1",
    ]
    assert lines[5].strip().startswith("both[0]: graph")


def test_long_parameters_are_cut():
    assert len(short(tuple(range(1000)))) == 60
    assert short(np.dtype("float32")) == "float32"
    assert short(test_text) == "<test_text>"
    assert "\n" not in short({"a": "b\nc"})


def test_a_graph_that_is_not_valid_still_prints():
    x = argument((3,))
    assert "sin(%?)" in text(Graph([], [Node(registry["sin"], [x], {})], []))


def test_the_table_is_aligned():
    lines = table(example()).splitlines()
    assert lines[0].split() == ["primitive", "inputs", "params", "spec", "bytes", "line"]
    column = lines[0].index("spec")
    assert all(re.match(r"(float|int)\d+\[", line[column:]) for line in lines[1:])
    assert "matmul" in lines[3] and lines[3].endswith("512  model.py:12")
    assert "1,280" in lines[1]


def test_print_tabular_prints(capsys):
    example().print_tabular()
    assert capsys.readouterr().out == table(example()) + "\n"


# drawings ---------------------------------------------------------------------------------------


def boxes(svg):
    """The rectangles of a drawing."""
    root = ElementTree.fromstring(svg)
    found = root.iter("{http://www.w3.org/2000/svg}rect")
    return [tuple([float(r.get(k)) for k in ("x", "y", "width", "height")]) for r in found]


def test_a_drawing_has_a_box_for_everything():
    drawing = draw(example())
    assert len(boxes(drawing.svg)) == 2 + 3 + 2
    assert "multiply(·, 2.5)" in drawing.svg
    assert drawing.svg.count("<path") == 5


@pytest.mark.parametrize("seed", [0, 1])
def test_boxes_do_not_overlap(seed):
    graph = Program(seed, steps=600).graph
    assert len(graph.nodes) >= 500
    drawing = draw(graph)
    assert drawing.svg == draw(Program(seed, steps=600).graph).svg
    width, height = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', drawing.svg).groups())
    rows = {}
    for x, y, w, h in boxes(drawing.svg):
        assert x >= 0 and x + w <= width + 1 and y >= 0 and y + h <= height
        rows.setdefault(y, []).append((x, w))
    for row in rows.values():
        row.sort()
        for (x, w), (after, _) in pairwise(row):
            assert x + w <= after + 0.2


def test_edges_run_downwards():
    for x0, y0, x1, y1 in re.findall(
        r'd="M([\d.]+) ([\d.]+)C.*? ([\d.]+) ([\d.]+)"', draw(Program(3, steps=100).graph).svg
    ):
        assert float(y1) > float(y0), (x0, x1)


def test_everything_is_escaped():
    x = argument((3,))
    node = Node(Effect(NASTY), [x], {NASTY: NASTY}, line=NASTY)
    graph = Graph([x], [node], [x], NASTY)
    drawing = draw(graph)
    ElementTree.fromstring(drawing.svg)
    for page in (drawing.svg, drawing._repr_html_(), graph._repr_html_()):
        assert "<script" not in page
    assert drawing.html.count("<script") == 1
    assert "alert(&quot;x&quot;)" in drawing.html


def test_show_writes_files(tmp_path):
    graph = example()
    assert "drawing of graph" in repr(graph.show())
    graph.show(tmp_path / "a.svg")
    ElementTree.parse(tmp_path / "a.svg")
    graph.show(str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text()
    assert page.startswith("<!doctype html>") and "wheel" in page and "{{" not in page
    with pytest.raises(ValueError, match=r"show writes \.svg and \.html, got 'a\.png'"):
        show(graph, "a.png")


def test_an_empty_graph_is_drawn():
    ElementTree.fromstring(draw(Graph([], [], [])).svg)
