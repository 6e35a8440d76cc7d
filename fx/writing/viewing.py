"""Viewing: what stands before the methods that give views, and notes what they give.

A method that the user calls is told by ``modes.views`` to note its result, in whatever primitive
makes it. The views that scripts take most have a quick way before that, written out in one frame:
NumPy's call, the tensor, its node and its record. For ``x[3]`` of a plain tensor it reads

    def viewing(x, index):
        if type(x) is Tensor and the caller is the user's and no transform runs and index is basic:
            found = x._a[index]
            out = a tensor of found, recorded where x is
            if nobody else holds x: return out
            record = the record of x, made where there is none
            if its family was not written and is of plain tensors:
                out._view = the record of out, one step further
                return out
        ...as every other method

What does not fit goes the common way, so the quick one decides nothing of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS
from sys import _getframe, getrefcount
from typing import Any, NamedTuple
from weakref import ref

from numpy import ndarray

from fx.config import modes, writing
from fx.frames import is_internal, known
from fx.levels import live
from fx.ops.indexing.language import BASIC
from fx.ops.indexing.views import back_of, element, fixed, indexed
from fx.prims.compare import stop_gradient
from fx.prims.shape import reshape, transpose
from fx.tape import Leaf, attach
from fx.tensor import Tensor, _new
from fx.writing.host import is_hosted, memories
from fx.writing.noting import SURELY, link, note_origin
from fx.writing.records import View, new_record

# of what these give PyTorch says that it is a view or raises, by strides that may be others here
ALWAYS = frozenset(("view", "view_as", "unflatten"))
# whose results share elements with one another, or lie upon themselves: noted also of a temporary
SHARED = frozenset(
    """
    expand expand_as broadcast_to chunk split split_with_sizes tensor_split hsplit
    vsplit dsplit unbind unstack unfold as_strided
    """.split()  # noqa: SIM905
)
# what gives the tensor itself where nothing is to be done
ITSELF = frozenset(("flatten", "real", "conj", "atleast_1d", "atleast_2d", "atleast_3d"))


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
    """

    arguments: str
    fits: str
    found: str
    primitive: Any
    params: str
    pullback: str = ""
    recorded: Any = None
    elements: bool = False


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
        "detach": Quick("self", "", "array", stop_gradient, "nothing"),
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


def noting(
    function: Callable[..., Any], quick: Quick | None = None, cells: bool = False
) -> Callable[..., Any]:
    """A method, whose results are noted as views where the user calls it.

    Args:
        quick: how it is written out, if it is.
        cells: whether for cells; else for plain tensors.
    """
    itself = function.__name__ in ITSELF
    way = SURELY if function.__name__ in ALWAYS else True
    most = 0 if function.__name__ in SHARED else _held_by_none()
    arguments, first = _signature(function)
    if quick is not None and arguments.split(", ")[1:] != quick.arguments.split(", ")[1:]:
        raise TypeError(f"{function.__name__} takes {arguments}; its quick way {quick.arguments}")
    exec(_code(arguments, first, quick, cells, way is SURELY), _SPACE)
    steps = (None, None) if quick is None else (quick.primitive, quick.recorded)
    made = _SPACE.pop("make")(function, itself, way, most, *steps)
    return wraps(function)(made)


# gathering all arguments to hand them on takes 0.12 µs, a tenth of what a view takes
_VIEWING = """
def make(_function, _itself, _way, _most, _primitive, _recorded):
 def viewing({arguments}):
  global _latest{quick}
  _now = modes.__dict__  # one look at what the thread has: an attribute of it costs as much
  if _now["views"]:
   return _function({arguments})
  if type({self}) is Tensor and (
   not writing.started or (getrefcount({self}) <= _most and _is_own({self}))
  ):
   return _function({arguments})
  _frame = _getframe(1)
  if _frame.f_globals is not _latest:
   _name = _frame.f_code.co_filename
   _internal = known.get(_name)
   if _internal or (_internal is None and is_internal(_name)):
    return _function({arguments})
   _latest = _frame.f_globals  # of a module of the user's: it takes the next ones too
  _now["views"] = _way
  try:
   _out = _function({arguments})
   if _out is {self}:
    return _out if _itself else _alias(_out)
   if type(_out) is tuple and any(_x is {self} for _x in _out):
    return tuple([_alias(_x) if _x is {self} else _x for _x in _out])
   return _out
  finally:
   _now["views"] = False
 return viewing
"""


def _quick_source(quick: Quick, first: str, cells: bool, surely: bool) -> str:
    """The lines of a quick way: of cells that a user made, or of plain tensors."""
    detached, reshapes = quick.primitive is stop_gradient, quick.primitive is reshape
    x = "held" if cells else first  # no second name, of which the count of references would tell
    fits = f" and {quick.fits}" if quick.fits else ""
    if cells and reshapes and not surely:
        fits += (
            " and family.strides is None and array.flags.c_contiguous"
            " and array.shape == family.shape"
        )
    if cells:
        start = f"""
  if _getframe(1).f_globals is _latest and not live:
   record = getattr({first}, "_view", None)
   family = None if record is None or record.path or record.leaf is not None else record.family
   if family is not None and family.of_user and family.cell is None:
    held = {first}.value
    array = held._a if type(held) is Tensor else None"""
    else:
        start = f"""
  if type({first}) is Tensor and _getframe(1).f_globals is _latest and not live:
    array = {first}._a"""
    lines = [
        start,
        f"    if type(array) is ndarray{fits}:",
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
    whole = "found" if not quick.elements else (
        "found if type(found) is ndarray else element(array, index)"
    )  # fmt: skip
    lines += [
        "     if found is not None:",
        "      out = _new(Tensor)",
        f"      out._a = {whole}",
        "      out._node = None",
        f"      node = {x}._node",
    ]
    if quick.pullback:
        lines += [
            "      if node is not None and modes.record0:",
            f"       attach(_recorded, {quick.pullback.format(x=x)}, (node,), out)",
        ]
    step = f"(_primitive, {quick.params})"
    if cells:
        lines += [
            "      made = _new(View)",
            "      made.family = family",
            f"      made.path = ({step},)",
            "      made.base = None",
        ]
        gone = "True" if detached else "node is not None and out._node is None"
    else:
        moves = ""
        if reshapes and not surely:
            moves = """
       or family.strides is not None or family.array is None
       or not (array is family.array or array.base is family.array)
       or not family.array.flags.c_contiguous"""
        lines += [
            f"      if getrefcount({x}) <= _most and _is_own({x}):",
            "       return out",
            f'      record = getattr({x}, "_view", None)',
            "      if record is None:",
            f"       record = new_record({x})",
            "      family, path = record.family, record.path",
            "      if (",
            "       family is None or family.cell is not None or family.of_user",
            "       or record.leaf is not None",
            f"       or (node is not None and path and type(node) is Leaf){moves}",
            "      ):",
            f"       return _linked({x}, out, _primitive, {quick.params}, _way)",
            "      made = _new(View)",
            "      made.family = family",
            f"      made.path = (*path, {step}) if path else ({step},)",
            f"      made.base = None if out._node is None else {x}",
        ]
        gone = "True" if detached else "node is not None and out._node is None"
    lines += [
        f"      made.cut = {gone if detached else f'record.cut or ({gone})'}",
        f"      made.kept = {True if detached else 'record.kept'}",
        "      made.lost = made.parted = False",
        "      made.since = made.at = 0",
        "      made.first = made.leaf = made.source = made.value = made.shown = None",
        "      out._view = made",
    ]
    if cells:
        lines += [
            "      if not family.watched:",
            "       writing.watched[id(family)] = family",
            "       family.watched = True",
            "      if not writing.started and (family.told is None or family.told() is not array):",
            "       note_origin(family, out._a)",
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
    at %= count
    return (*shape[:at], 1, *shape[at:])


def narrowed(shape: tuple[int, ...], axis: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The sizes without an axis of size 1; None for what else may be asked."""
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


def _linked(x: Any, out: Any, primitive: Any, params: dict[str, Any], way: Any) -> Any:
    """What ``link`` makes of a view."""
    before, modes.views = modes.views, way
    try:
        return link(x, out, primitive, params)
    finally:
        modes.views = before


def _signature(function: Callable[..., Any]) -> tuple[str, str]:
    """How a method takes its arguments, and the first one's name."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_argcount:
        return "self, *args, **kwargs", "self"
    names, count = code.co_varnames, code.co_argcount
    rest = [f"*{names[count]}"] if code.co_flags & CO_VARARGS else []
    taken = [*names[:count], *rest]
    keywords = code.co_kwonlyargcount or code.co_flags & CO_VARKEYWORDS
    if keywords or len(taken) > 2 or function.__defaults__:
        return f"{names[0]}, *args, **kwargs", names[0]
    return ", ".join(taken), names[0]


@cache  # a score of sources in all, since each takes 0.2 ms of the import
def _code(arguments: str, first: str, quick: Quick | None, cells: bool, surely: bool) -> Any:
    lines = "" if quick is None else _quick_source(quick, first, cells, surely)
    source = _VIEWING.format(arguments=arguments, self=first, quick=lines)
    return compile(source, __file__, "exec")  # code of fx's, not of the user's


def _held_by_none() -> int:
    """How often what has no name is held while a method of it runs; 0 where that cannot be told."""
    probe = _Probe()
    named: int = probe.count()
    alone: int = _Probe().count()
    return alone if alone < named else 0


class _Probe:
    def count(self, *args: Any, **kwargs: Any) -> int:
        return getrefcount(self)


def _is_own(x: Tensor) -> bool:
    """Whether a tensor that nobody holds has memory that nobody else sees.

    Then a view of it is a tensor like others, of which nothing is noted. What is written into that
    goes into a copy, since its array is one of NumPy's views.
    """
    if getattr(x, "_view", None) is not None or type(x._node) is Leaf:
        return False
    array = x._a
    if type(array) is not ndarray:
        return False
    return (array.base is None and id(array) not in memories) or not is_hosted(array)


def _alias(x: Any) -> Any:
    """Another tensor of the same elements."""
    return reshape(x, shape=x._shape)


# the names of the sources: they share what they know of who called last
_SPACE: dict[str, Any] = {
    "_latest": None, "__name__": __name__, "modes": modes, "writing": writing, "live": live,
    "Tensor": Tensor, "View": View, "Leaf": Leaf, "ndarray": ndarray, "_new": _new, "ref": ref,
    "getrefcount": getrefcount, "_getframe": _getframe, "known": known,
    "is_internal": is_internal, "attach": attach, "new_record": new_record, "note_origin":
    note_origin, "_is_own": _is_own, "_alias": _alias, "_linked": _linked, "are_sizes": are_sizes,
    "BASIC": BASIC, "fixed": fixed, "element": element, "back_of": back_of, "reshape": reshape,
    "transpose": transpose, "exchanged": exchanged, "is_order": is_order, "widened": widened,
    "narrowed": narrowed, "nothing": {},
}  # fmt: skip
