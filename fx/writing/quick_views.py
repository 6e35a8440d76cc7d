"""Quick views: the views that scripts take most, made and noted in one frame.

A table has what is the method's own (``quick_ways``); the rest of the source is the same for all:
NumPy's call, the tensor, its node and its record. For ``x[3]`` of a plain tensor it reads

    if type(x) is Tensor and the caller is the user's and no transform runs:
        array = x._a
        if type(array) is ndarray and index is basic:
            found = array[index]
            out = a tensor of found, recorded where x is
            if nobody else holds x: return out
            family, path = what is noted of x, made where there is nothing
            if the family was written, or is a parameter's: return what `link` makes of it
            out._noted = what its record is made of when it is asked for, one step further
            return out

and it stands before the common way (``viewing.py``), which has all that does not fit. So it decides
nothing of its own, and ``tests/torch/test_viewing.py`` holds the two equal.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from numpy import ndarray

from fx.levels import live
from fx.ops.indexing.language import BASIC
from fx.ops.indexing.views import back_of, element, fixed, indexed
from fx.prims.compare import stop_gradient
from fx.prims.shape import reshape, transpose
from fx.tape import Leaf, attach
from fx.tensor import Tensor, _blank, _new
from fx.writing.host import memories
from fx.writing.noting import note_origin
from fx.writing.records import Family, Storage, View, new_family
from fx.writing.written import PLAIN


class Quick(NamedTuple):
    """How one method is written out; expressions of its arguments, ``x`` and ``array``.

    Attributes:
        arguments: how it takes them.
        fits: which of them.
        found: the array of the view; what NumPy refuses goes the common way.
        primitive, params: the step that leads to it.
        pullback: of its node; "" for none.
        recorded: the primitive of its node.
        elements: whether NumPy gives a single element as a number.
        kept: whether it is apart from optimizers' steps, as what ``detach()`` gives.
    """

    arguments: str
    fits: str
    found: str
    primitive: Any
    params: str
    pullback: str = ""
    recorded: Any = None
    elements: bool = False
    kept: bool = False


_RESHAPED = Quick(
    "self, *shape", "are_sizes(shape)", "array.reshape(shape)",
    reshape, "{'shape': found.shape}", "reshape.vjp(None, {x}, shape=None)", reshape,
)  # fmt: skip
_SWAPPED = Quick(
    "self", "len(array.shape) == 2", "array.T",
    transpose, "{'axes': (1, 0)}", "transpose.vjp(None, {x}, axes=(1, 0))", transpose,
)  # fmt: skip


_ANY = "self, *args, **kwargs"


def quick_ways(index_of: Any) -> dict[str, Quick]:
    """The methods that have one, by name.

    Args:
        index_of: the step of basic indices.
    """
    return {
        "__getitem__": Quick(
            "x, index",
            "(type(index) in BASIC or type(index) is tuple and BASIC.issuperset(map(type, index)))",
            "array[index]", index_of, "{'index': index if type(index) is int else fixed(index)}",
            "back_of(array.shape, index if type(index) is int else fixed(index))", indexed, True,
        ),
        "detach": Quick("self", "", "array", stop_gradient, "nothing", kept=True),
        "data": Quick("self", "", "array", stop_gradient, "nothing"),
        "flatten": Quick(
            _ANY, "not kwargs and (wanted := flattened(array, args)) is not None",
            "array.reshape(wanted)", reshape, "{'shape': wanted}",
            "reshape.vjp(None, {x}, shape=None)", reshape,
        ),
        "view": _RESHAPED,
        "reshape": _RESHAPED,
        "t": _SWAPPED,
        "T": _SWAPPED,
        "transpose": Quick(
            _ANY, "not kwargs and (order := exchanged(len(array.shape), args)) is not None",
            "array.transpose(order)", transpose, "{'axes': order}",
            "transpose.vjp(None, {x}, axes=order)", transpose,
        ),
        "permute": Quick(
            _ANY, "not kwargs and is_order(len(array.shape), args)",
            "array.transpose(args)", transpose, "{'axes': args}",
            "transpose.vjp(None, {x}, axes=args)", transpose,
        ),
        "unsqueeze": Quick(
            _ANY, "not kwargs and (wanted := widened(array.shape, args)) is not None",
            "array.reshape(wanted)", reshape, "{'shape': wanted}",
            "reshape.vjp(None, {x}, shape=None)", reshape,
        ),
        "squeeze": Quick(
            _ANY, "not kwargs and (wanted := narrowed(array.shape, args)) is not None",
            "array.reshape(wanted)", reshape, "{'shape': wanted}",
            "reshape.vjp(None, {x}, shape=None)", reshape,
        ),
    }  # fmt: skip


_STARTS = {  # of what each sort of tensors is asked; it names the array in which to look
    "plain": """
  if type({first}) is Tensor and _getframe(1).f_globals is _latest and not live:
    array = {first}._a""",
    "cell": """
  if _getframe(1).f_globals is _latest and not live:
   record = getattr({first}, "_noted", None)
   if type(record) is not View or record.path or record.leaf is not None:
    family = None
   else:
    family = record.family
   if family is not None and family.of_user and family.cell is None:
    held = {first}.value
    array = held._a if type(held) is Tensor else None""",
    "written": """
  if type({first}) is PLAIN and _getframe(1).f_globals is _latest and not live:
   record = {first}._noted
   family = record.family
   origin = family.cell.value if type(family.cell) is Storage else None
   if (
    type(origin) is Tensor{free} and record.leaf is None
    and (not record.since or modes.pulling >= record.since)
   ):
    own = origin._a
    held = record.value if record.source is origin else {first}.read()
    array = None
    if type(held) is Tensor and type(own) is ndarray and own.base is None:
     array = held._a if id(own) not in memories else None""",
}
_FREE = " and (origin._node is None or record.cut)"  # so that no history leads to the view
# where a reshape, of which PyTorch does not say that it gives a view, surely does
_IN_ORDER = {
    "plain": "",  # asked once the family is known
    "cell": " and family.strides is None and array.flags.c_contiguous"
    " and array.shape == family.shape",
    "written": " and family.strides is None and own.flags.c_contiguous"
    " and (array is own or array.base is own)",
}
_FAMILY = """
      if getrefcount({first}) <= _most and _is_own({first}):
       return out
      noted = getattr({first}, "_noted", None) or new_family({first})
      if type(noted) is Family:
       family = noted
       path = ()
       leaf = None
       cut = kept = False
      else:
       if type(noted) is tuple:
        noted = {first}._view
       family = noted.family
       path = noted.path
       leaf = noted.leaf
       cut = noted.cut
       kept = noted.kept
      if (
       family is None or family.cell is not None or family.of_user or leaf is not None
       or (node is not None and path and type(node) is Leaf){moves}
      ):
       return {linked}"""
_MOVES = """
       or family.strides is not None or family.array is None
       or not (array is family.array or array.base is family.array)
       or not family.array.flags.c_contiguous"""


def quick_source(quick: Quick, first: str, sort: str, surely: bool) -> str:
    """The lines of a quick way, of tensors of a sort."""
    detached, reshapes = quick.primitive is stop_gradient, quick.primitive is reshape
    x = first if sort == "plain" else "held"  # no second name, which the references would count
    asked = reshapes and not surely
    fits = f" and {quick.fits}" if quick.fits else ""
    lines = [
        _STARTS[sort].format(first=first, free="" if detached else _FREE),
        f"    if type(array) is ndarray{_IN_ORDER[sort] if asked else ''}{fits}:",
        "     try:",
        f"      found = {quick.found}",
        "     except (IndexError, TypeError, ValueError):",
        "      found = None",
    ]
    if reshapes:
        lines += [
            "     if found is not None:",
            "      base = found.base",
            "      if base is None or not (base is array or base is array.base):",
            "       found = None  # it has moved the elements",
        ]
    whole = "found"
    if quick.elements:
        whole = "found if type(found) is ndarray else element(array, index)"
    lines += [
        "     if found is not None:",
        "      out = _blank()",
        f"      out._a = {whole}",
        "      out._node = None",
    ]
    if sort != "written":
        lines.append(f"      node = {x}._node")
        if quick.pullback:
            lines += [
                "      if node is not None and modes.record0:",
                f"       attach(_recorded, {quick.pullback.format(x=x)}, (node,), out)",
            ]
    if sort == "plain":
        moves, linked = (
            _MOVES if asked else "",
            f"_linked({first}, out, _primitive, {quick.params}, _way)",
        )
        if detached and not quick.kept:
            linked = f"_kept_as({first}, {linked})"
        lines.append(_FAMILY.format(first=first, moves=moves, linked=linked))
    held = "" if sort == "plain" else "record."
    base = f"None if out._node is None else {x}" if sort == "plain" else "None"
    cut = "True" if detached else f"{held}cut"
    if not detached and sort != "written":
        cut += " or (node is not None and out._node is None)"
    kept = "True" if quick.kept else f"{held}kept"
    if sort == "written":
        step = f"(_primitive, {quick.params})"
        lines += [
            "      out._noted = None",
            "      made = _new(View)",
            "      made.family = family",
            f"      made.path = (*record.path, {step}) if record.path else ({step},)",
            f"      made.cut = {cut}",
            f"      made.kept = {kept}",
            "      made.lost = made.parted = False",
            "      made.since = made.at = 0",
            "      made.base = made.first = made.leaf = made.shown = None",
            "      made.shape = out._a.shape",
            "      made.dtype = out._a.dtype",
            "      made.source = origin",
            "      made.value = out",
            "      out = _new(PLAIN)",
            "      out._noted = made",
        ]
    else:
        path = "path" if sort == "plain" else "()"
        made = f"(family, {path}, _primitive, {quick.params}, {base}, {cut}, {kept})"
        lines.append(f"      out._noted = {made}")
    if sort == "cell":
        lines += [
            "      if not family.watched:",
            "       writing.watched[id(family)] = family",
            "       family.watched = True",
            "      if not writing.started:",
            "       owner = array if array.base is None else array.base",
            "       if family.told is None or family.told() is not owner:",
            "        note_origin(family, out._a)",
        ]
    lines += [
        "      members = family.members",
        "      if len(members) >= family.limit:",
        "       members = family.swept()",
        "      members.append(ref(out))",
        "      return out",
    ]
    return "\n".join(lines)


def are_sizes(shape: tuple[Any, ...]) -> bool:
    """Whether all are plain ints that NumPy reads as PyTorch does."""
    for n in shape:
        if type(n) is not int or n < -1:
            return False
    return bool(shape)


def exchanged(rank: int, axes: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The order in which two other axes are exchanged; None for what else may be asked."""
    if len(axes) != 2 or type(axes[0]) is not int or type(axes[1]) is not int:
        return None
    return _EXCHANGED.get((rank, *axes))


def is_order(rank: int, axes: tuple[Any, ...]) -> bool:
    """Whether these are all axes, none counted from the end, as plain ints."""
    return len(axes) == rank and _INT.issuperset(map(type, axes)) and set(axes) == _AXES[rank]


def widened(shape: tuple[int, ...], axis: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The sizes with a new axis where a plain int says; None for what else may be asked."""
    if len(axis) != 1 or type(axis[0]) is not int:
        return None
    at, count = axis[0], len(shape) + 1
    if not -count <= at < count:
        return None
    if not at:
        return (1, *shape)
    at %= count
    return (*shape[:at], 1, *shape[at:])


def flattened(array: ndarray, start: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The sizes with all axes from a plain int on in one; None for what else may be asked."""
    if not start:
        return (array.size,) if array.ndim > 1 else None  # with one axis it is the tensor itself
    shape, at = array.shape, start[0]
    if len(start) != 1 or type(at) is not int or not 0 <= at < len(shape) - 1:
        return None
    return (*shape[:at], prod(shape[at:]))


def narrowed(shape: tuple[int, ...], axis: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The sizes without one axis of size 1, or all; None for what else may be asked."""
    if not axis:
        return tuple([n for n in shape if n != 1]) if 1 in shape else None
    if len(axis) != 1 or type(axis[0]) is not int:
        return None
    at, count = axis[0], len(shape)
    if not -count <= at < count or shape[at] != 1:
        return None
    at %= count
    return (*shape[:at], *shape[at + 1 :])


def _order(rank: int, a: int, b: int) -> tuple[int, ...]:
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return tuple(order)


_INT = frozenset((int,))
_AXES = [frozenset(range(rank)) for rank in range(65)]
_EXCHANGED = {
    (rank, a, b): _order(rank, a, b)
    for rank in range(2, 6) for a in range(-rank, rank) for b in range(-rank, rank)
    if (a - b) % rank
}  # fmt: skip


# what the sources name
NAMES: dict[str, Any] = {
    "Tensor": Tensor, "PLAIN": PLAIN, "Storage": Storage, "View": View, "Leaf": Leaf,
    "ndarray": ndarray, "live": live, "memories": memories, "_new": _new, "_blank": _blank,
    "attach": attach, "Family": Family, "new_family": new_family, "note_origin": note_origin,
    "BASIC": BASIC, "fixed": fixed,
    "element": element, "back_of": back_of, "reshape": reshape, "transpose": transpose,
    "are_sizes": are_sizes, "exchanged": exchanged, "is_order": is_order,
    "widened": widened, "flattened": flattened,
    "narrowed": narrowed, "nothing": {},
}  # fmt: skip
