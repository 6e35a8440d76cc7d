"""The first half of a short way: a call is checked, and the arrays that it needs are fetched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx import limits, tree
from fx.config import modes
from fx.devices import backend
from fx.graph.ir import Value
from fx.modes import Defaults
from fx.transforms.jitting.guards.code import same
from fx.transforms.jitting.handled import was_sent
from fx.transforms.jitting.program import SIZE, Argument, Enclosed, Program
from fx.transforms.jitting.recording.host import ERRORS, Fits
from fx.transforms.jitting.remembered import weakly
from fx.transforms.jitting.signature import holds_state
from fx.writing.layouts import strides_of

MISS = object()  # what a plan returns where it does not serve a call


class Code:
    """Lines of a function, and the names that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.miss = "MISS"  # what is returned where the call is not served

    def add(self, *lines: str) -> None:
        self.lines += lines

    def name(self, prefix: str, value: Any) -> str:
        """A name for a value that the code refers to."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def require(self, condition: str) -> None:
        """Go the long way unless ``condition`` holds."""
        self.add(f"if not ({condition}): return {self.miss}")


def settings(code: Code, program: Program) -> None:
    """Check what the thread has set: one look at its dict, for an attribute of it costs as much."""
    code.add("now = modes.__dict__")
    code.require(
        f"now['stage'] is None and now['record0'] is {modes.record0} and not now['axes'] "
        f"and now['journal'] is None and now['inference'] is {modes.inference}"
    )
    code.require(f"now['device'] is {code.name('device', modes.device)}")
    code.require(f"now['autocast'] is {code.name('autocast', modes.autocast)}")
    code.names["defaults"] = Defaults
    code.require(f"defaults.dtype is {code.name('dtype', Defaults.dtype)}")
    code.require(f"defaults.device == {Defaults.device!r}")
    if limits.key():
        code.names["limits"] = limits.key
        code.require(f"limits() == {limits.key()!r}")
    if program.random:
        code.require("not now['lanes'] and now['turn'] is None")


def arguments(
    code: Code, jitted: Any, program: Program, signature: Any, refused: set[int],
    varies: Sequence[int] = (),
) -> None:  # fmt: skip
    """Check the arguments; the arrays of tensors become ``x0``, ``x1`` …

    ``refused`` are the tensors whose arrays the code that runs refuses itself if they are not of
    the CPU: these are not asked, which takes time. Of the shapes of ``varies`` the number of axes
    is checked alone.
    """
    treedef, parts = signature.treedef, signature.parts
    plain = tree.flatten_in_order((tuple([0] * len(parts)), {}))[1]
    if treedef == plain:  # every argument is a leaf, none has a keyword
        code.require(f"not kwargs and len(args) == {len(parts)}")
        if parts:
            code.add(f"({''.join(f'l{i}, ' for i in range(len(parts)))}) = args")
    else:
        code.names["flatten"] = tree.flatten_in_order
        code.names["holds_state"] = holds_state
        code.add("leaves, treedef = flatten((args, kwargs), holds_state)")
        code.require(f"treedef == {code.name('treedef', treedef)}")
        if parts:
            code.add(f"({''.join(f'l{i}, ' for i in range(len(parts)))}) = leaves")
    sources = program.sources
    asked = {getattr(sources[v], "number", -1): steps for v, steps in program.layouts.items()}
    for i, (kind, place) in enumerate(parts):
        if kind == "tensor":
            spec = signature.tensors[place].spec
            code.require(f"type(l{i}) is Tensor and l{i}._node is None")
            code.add(f"x{place} = l{i}._a")
            dtype = code.name("dtype", spec.dtype)
            shape = f"shape == {spec.shape!r}" if place not in varies else f"ndim == {spec.ndim}"
            code.require(f"x{place}.dtype is {dtype} and x{place}.{shape}")
            if spec.device != "cpu" or place not in refused:
                _of_device(code, f"x{place}", spec)
            if place in asked:
                _lies(code, f"x{place}", asked[place])
        elif kind == "number":
            kind = code.name("kind", type(signature.numbers[place]))
            code.require(f"type(l{i}) is {kind}")
            code.add(f"a{place} = l{i}")
        else:
            held = code.name("object", signature.objects[place])
            if isinstance(signature.objects[place], complex):  # 2-0j is no 2+0j, and equal to it
                code.names["same"] = same
                code.require(f"l{i} is {held} or same(l{i}, {held})")
            elif isinstance(signature.objects[place], bool | str | bytes | type(None)):
                code.require(f"l{i} is {held} or (type(l{i}) is type({held}) and l{i} == {held})")
            else:
                code.names[held] = weakly(signature.objects[place])
                code.require(f"l{i} is {held}()")


def _lies(code: Code, name: str, steps: Any) -> None:
    """Check how an array lies in memory."""
    code.names["strides_of"] = strides_of
    told = f"strides_of({name}) == {steps!r}"
    code.require(told if steps is not None else f"{name}.flags.c_contiguous or {told}")


def _of_device(code: Code, name: str, spec: Any) -> None:
    code.require(f"type({name}) is {code.name('kind', backend(spec.device).ARRAY)}")


def fetch_numbers(
    code: Code, program: Program, counted: dict[Value, Any], leaves: list[Any],
    lengths: Sequence[Any] = (),
) -> dict[Any, str]:  # fmt: skip
    """Fetch the Python numbers, and what is computed of them where one has changed.

    Args:
        counted: the inputs that are numbers, with their sources.
        leaves: the results that are numbers.
        lengths: of what is assumed, what is not: it becomes the variable ``lengths``.

    Returns:
        the name of the variable that holds the array of each input, and the number of each leaf.
    """
    if not program.numbers and not program.table.draws:
        return {}
    for i, (owner, key, kind) in enumerate(program.numbers):
        if owner == "argument":
            code.add(f"n{i} = a{key}")
        elif owner is SIZE:
            code.add(f"n{i} = x{key[0]}.shape[{key[1]}]")
        elif type(owner) is Enclosed:
            code.add(f"n{i} = {code.name('cell', owner.cell)}.cell_contents")
            code.require(f"type(n{i}) is {code.name('kind', kind)}")
        else:
            code.add(f"n{i} = get({code.name('held', owner)}, {code.name('key', key)})")
            code.require(f"type(n{i}) is {code.name('kind', kind)}")
    predicates, table = tuple(program.predicates), program.table
    wanted = [(source.host.place, source.dtype) for source in counted.values()]
    given = [leaf.number.place for leaf in leaves]
    known: list[Any] = [(None, (), None)]
    listed = "".join(f"n{i}, " for i in range(len(program.numbers)))
    names = [f"m{i}" for i in range(len(wanted) + len(given))]
    ids = [*counted, *map(id, leaves)]
    if table.draws:
        from fx.transforms.jitting.recording.draws import drawing

        code.add(
            f"found = {code.name('draw', drawing(program, wanted, given))}(({listed}))",
            "if found is None: return MISS",
            f"({''.join(f'{name}, ' for name in names)}), drawn = found"
            if names
            else "drawn = found[1]",
        )
        code.miss = "drawn.put_back() or MISS"
        return dict(zip(ids, names))
    count = len(program.numbers)
    # that a number can be a tensor of a dtype is seen when it becomes one
    asked = [
        p
        for p in predicates
        if p not in lengths
        and (p.answer is not True or (p.host.place, p.ask) not in [(i, Fits(d)) for i, d in wanted])
    ]
    places = [p.host.place for p in lengths]
    compute = or_none(table.function(wanted, places, count, asked))
    matter = table.roots([*[p for p, _ in wanted], *[p.host.place for p in predicates]])
    # what nothing is assumed of, as a counter that is stored, changes in each call
    listed = "".join(f"n{i}, " if i in matter else "0, " for i in range(count))

    def renewed(numbers: tuple[Any, ...]) -> tuple[Any, ...] | None:
        # 0.0 == -0.0, so that numbers with a zero among them are told apart by their text
        exact = None
        for n in numbers:
            if not n and type(n) is not int:
                exact = repr(numbers)
        _, made, before = known[0]
        if exact is not None and exact == before:
            return made  # type: ignore[no-any-return]
        made = compute(*numbers)
        if made is None:
            return None
        known[0] = (numbers if exact is None else None, made, exact)
        return made  # type: ignore[no-any-return]

    code.add(
        f"numbers = ({listed})",
        f"made = {code.name('known', known)}[0]",
        f"made = made[1] if numbers == made[0] else {code.name('renewed', renewed)}(numbers)",
        "if made is None: return MISS",
    )
    if lengths:
        code.add(f"lengths = made[{len(wanted)}:]")
    if wanted:
        rest = "*_" if lengths else ""
        code.add(f"({''.join(f'{name}, ' for name in names[: len(wanted)])}{rest}) = made")
    if given:
        leaves_now = code.name("given", or_none(table.function((), given, count)))
        code.add(
            f"made = {leaves_now}({', '.join([f'n{i}' for i in range(count)])})",
            "if made is None: return MISS",
            f"({''.join(f'{name}, ' for name in names[len(wanted) :])}) = made",
        )
    return dict(zip(ids, names))


def or_none(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that gives None where Python raises an error about them."""

    def computed(*numbers: Any) -> Any:
        try:
            return compute(*numbers)
        except ERRORS as error:
            if was_sent(error):
                raise
            return None

    return computed


def fetch_input(code: Code, program: Program, value: Value, source: Any) -> str:
    """The name of the variable that holds the array of an argument or a tensor from outside."""
    if type(source) is Argument:
        return f"x{source.number}"
    i = len(code.names)
    spec = value.spec
    dtype = code.name("dtype", spec.dtype)
    find = code.name("find", source.find)
    code.add(f"t{i} = {find}(F, O)")
    code.require(f"type(t{i}) is Tensor and t{i}._node is None")
    code.add(f"b{i} = t{i}._a")
    code.require(f"b{i}.dtype is {dtype} and b{i}.shape == {spec.shape!r}")
    _of_device(code, f"b{i}", spec)
    if value in program.layouts:
        _lies(code, f"b{i}", program.layouts[value])
    return f"b{i}"
