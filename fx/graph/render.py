"""Drawings: a graph as SVG, and as an HTML page to move about in."""

from __future__ import annotations

from html import escape
from os import PathLike, fspath
from typing import Any

from fx.graph.ir import Graph, Node, Value
from fx.graph.layout import HEIGHT, Box, place
from fx.graph.printing import Names, call_text, subgraphs, text
from fx.slotted import slotted

_COLOURS = {
    "input": "#dbeafe",
    "output": "#bfdbfe",
    "creation": "#f3e8ff",
    "elementwise": "#ecfdf5",
    "shape": "#f3f4f6",
    "reduction": "#fef3c7",
    "product": "#fee2e2",
    "other": "#ffedd5",
}
_FAMILIES = {"": "other", "view": "shape", "strided": "shape", "move": "shape"}
_LABEL = 40  # characters
_CHARACTER = 6.7  # pixels of one character of a label


@slotted(eq=False)
class Shape(Box):
    """One box of the drawing: two lines, and what is shown while the pointer is on it."""

    kind: str = "other"
    title: str = ""
    subtitle: str = ""
    details: str = ""


@slotted(frozen=True)
class Drawing:
    """What ``graph.show()`` gives; a notebook shows it by itself.

    Attributes:
        svg: the drawing.
        title: the graph's name.
        listing: the graph as text.
    """

    svg: str
    title: str
    listing: str

    @property
    def html(self) -> str:
        """A page of its own: drag to move, turn the wheel to zoom, point for details."""
        return _PAGE.format(title=escape(self.title), svg=self.svg, listing=escape(self.listing))

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto;max-height:640px">{self.svg}</div>'

    def __repr__(self) -> str:
        return f"<drawing of {self.title}: {len(self.svg):,} characters of SVG>"


def draw(graph: Graph) -> Drawing:
    """A graph as a drawing.

    Args:
        graph: of any size; the time is about linear in its nodes.

    Example:
        >>> import fx
        >>> from fx.graph.render import draw
        >>> draw(fx.make_graph(fx.sin)(fx.ones(3))).svg[:4]
        '<svg'
    """
    shapes = _shapes(graph)
    width, height = place(shapes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="ui-monospace,monospace" '
        f'font-size="11">'
    ]
    parts += [_edge(source, shape) for shape in shapes for source in dict.fromkeys(shape.above)]
    parts += [_box(shape) for shape in shapes]
    parts.append("</svg>")
    return Drawing("\n".join(parts), graph.name, text(graph))


def show(graph: Graph, path: str | PathLike[str] | None = None) -> Drawing:
    """A drawing of a graph, written to ``path`` as well: ``.svg``, or ``.html`` for a page.

    Args:
        graph: to draw.
        path: of the file, which is replaced.

    Raises:
        ValueError: for a file that is neither.

    Example:
        >>> import fx
        >>> fx.make_graph(fx.sin)(fx.ones(3)).show()
        <drawing of sin: ... characters of SVG>
    """
    drawing = draw(graph)
    if path is not None:
        name = fspath(path)
        if not name.endswith((".svg", ".html")):
            raise ValueError(f"show writes .svg and .html, got {name!r}; write {name + '.html'!r}")
        with open(name, "w", encoding="utf-8") as file:
            file.write(drawing.html if name.endswith(".html") else drawing.svg)
    return drawing


# boxes and edges --------------------------------------------------------------------------------


def _shapes(graph: Graph) -> list[Shape]:
    names = Names(graph)
    made: dict[Value, Shape] = {}
    shapes: list[Shape] = []

    def add(kind: str, title: str, subtitle: str, details: str, sources: Any) -> Shape:
        width = max(len(title), len(subtitle)) * _CHARACTER + 18
        shape = Shape(width, kind=kind, title=title, subtitle=subtitle, details=details)
        for value in sources:
            if value in made:
                shape.above.append(made[value])
                made[value].below.append(shape)
        shapes.append(shape)
        return shape

    used = set(graph.uses())
    for value in graph.inputs:
        note = "" if value in used else "\nnothing uses it"
        details = f"input {names(value)}: {value.spec!r}{note}"
        made[value] = add("input", f"input {names(value)}", repr(value.spec), details, ())
    for node in graph.nodes:
        spec = ", ".join([repr(v.spec) for v in node.outs])
        shape = add(kind_of(node), _label(node, names), spec, _details(node, names), node.inputs)
        for value in node.outs:
            made[value] = shape
    for i, value in enumerate(graph.outputs):
        details = f"output {i}: {names(value)}: {value.spec!r}"
        add("output", f"output {i}", _of_constant(value, names), details, (value,))
    return shapes


def _of_constant(value: Value, names: Names) -> str:
    return repr(value.spec) if value.constant is None else names(value)


def _label(node: Node, names: Names) -> str:
    """The primitive, and its arguments where some are constants."""
    name = str(node.primitive.name)
    if any(v.constant is not None for v in node.inputs):
        args = [names(v) if v.constant is not None else "·" for v in node.inputs]
        name = f"{name}({', '.join(args)})"
    return name if len(name) <= _LABEL else name[: _LABEL - 1] + "…"


def _details(node: Node, names: Names) -> str:
    results = ", ".join([f"{names(v)}: {v.spec!r} ({v.spec.nbytes:,} bytes)" for v in node.outs])
    lines = [results, f"= {call_text(node, names)}"]
    if node.line:
        lines.append(node.line)
    lines += [f"{name}: {text(nested)}" for name, nested in subgraphs(node.params)]
    return "\n".join(lines)


def kind_of(node: Node) -> str:
    """The family that a node is drawn as."""
    kind = node.primitive.kind
    return _FAMILIES.get(kind, kind)


def _box(shape: Shape) -> str:
    x, y, w = shape.x - shape.width / 2, shape.top, shape.width
    details = escape(shape.details).replace("\n", "&#10;")
    return (
        f'<g class="node" data-details="{details}"><title>{escape(shape.details)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{HEIGHT:.0f}" rx="5" '
        f'fill="{_COLOURS[shape.kind]}" stroke="#9ca3af"/>'
        f'<text x="{shape.x:.1f}" y="{y + 14:.1f}" text-anchor="middle" font-weight="600" '
        f'fill="#111827">{escape(shape.title)}</text>'
        f'<text x="{shape.x:.1f}" y="{y + 27:.1f}" text-anchor="middle" fill="#4b5563">'
        f"{escape(shape.subtitle)}</text></g>"
    )


def _edge(source: Any, target: Shape) -> str:
    x0, y0, x1, y1 = source.x, source.top + HEIGHT, target.x, target.top
    bend = min(60.0, (y1 - y0) / 2)
    return (
        f'<path d="M{x0:.1f} {y0:.1f}C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} '
        f'{x1:.1f} {y1:.1f}" fill="none" stroke="#9ca3af"/>'
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ margin: 0; font: 13px ui-monospace, monospace; color: #111827; background: #fff; }}
#view {{ position: fixed; inset: 0; cursor: grab; touch-action: none; }}
#view.moving {{ cursor: grabbing; }}
#view svg {{ width: 100%; height: 100%; }}
.node {{ cursor: pointer; }}
.node.near rect {{ stroke: #1d4ed8; stroke-width: 2; }}
#details {{ position: fixed; left: 12px; bottom: 12px; max-width: 70vw; max-height: 40vh;
  overflow: auto; margin: 0; padding: 8px 10px; white-space: pre-wrap; background: #fffd;
  border: 1px solid #d1d5db; border-radius: 6px; }}
#text {{ position: fixed; right: 12px; top: 12px; max-width: 60vw; max-height: 90vh; overflow: auto;
  background: #fffe; border: 1px solid #d1d5db; border-radius: 6px; padding: 6px 10px; }}
</style></head><body>
<div id="view">{svg}</div>
<details id="text"><summary>{title} as text</summary><pre>{listing}</pre></details>
<pre id="details">drag to move, wheel to zoom, point at a node</pre>
<script>
"use strict";
const view = document.getElementById("view"), svg = view.querySelector("svg");
const details = document.getElementById("details");
const box = svg.viewBox.baseVal, move = (x, y, w, h) => svg.setAttribute("viewBox", [x, y, w, h]);
let from = null;
view.addEventListener("wheel", event => {{
  event.preventDefault();
  const factor = Math.exp(event.deltaY * 0.0015), point = svg.createSVGPoint();
  point.x = event.clientX; point.y = event.clientY;
  const at = point.matrixTransform(svg.getScreenCTM().inverse());
  move(at.x + (box.x - at.x) * factor, at.y + (box.y - at.y) * factor,
       box.width * factor, box.height * factor);
}}, {{ passive: false }});
view.addEventListener("pointerdown", event => {{
  from = [event.clientX, event.clientY]; view.classList.add("moving");
}});
addEventListener("pointermove", event => {{
  if (!from) return;
  const scale = svg.getScreenCTM().a;
  move(box.x - (event.clientX - from[0]) / scale, box.y - (event.clientY - from[1]) / scale,
       box.width, box.height);
  from = [event.clientX, event.clientY];
}});
addEventListener("pointerup", () => {{ from = null; view.classList.remove("moving"); }});
for (const node of svg.querySelectorAll(".node")) {{
  node.addEventListener("pointerenter", () => {{
    details.textContent = node.dataset.details; node.classList.add("near");
  }});
  node.addEventListener("pointerleave", () => node.classList.remove("near"));
}}
</script></body></html>
"""
