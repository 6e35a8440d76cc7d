"""A pickle machine that can build plain data and tensors, and nothing else.

It is written over the opcodes of protocols 2 to 5 instead of derived from ``pickle.Unpickler``, so
that everything that a file can ask for is on this page: names are looked up in a table and never
imported, only what the table marks as callable is called, and no length is believed before it has
been compared with the bytes that are there. What an operation makes is counted against what the
file may take, and keys are let into containers only where their hashes do not collide on purpose.
"""

from __future__ import annotations

import secrets
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from fx.errors import FileFormatError
from fx.io.inspection import ENTRY, LONG, Allowance, check_key, check_size, weight
from fx.io.makers import Maker, Theirs, Trusted
from fx.io.tables import Tables

_MAPPINGS = (dict, OrderedDict, Counter, defaultdict)
_WORD = (1 << 60) - 1
_SALT = secrets.randbits(60) | 1  # numbers of the memo are the file's to choose, their places not


class Words(Protocol):
    """What the machine knows of the world."""

    def find(self, module: str, name: str) -> Any:
        """A Maker, a Trusted or a value; raises for a name that is not allowed."""

    def fill(self, target: Any, state: Any) -> None:
        """Give the state to an object that is no plain container."""

    def storage(self, number: Any) -> Any:
        """The storage of a persistent id."""


class Machine:
    """Runs one pickle after the other out of a buffer.

    Args:
        data: the bytes.
        words: what names and persistent ids stand for.
        what: the name of the file, for messages.
        allowance: what may be made; of the buffer's own size, if it is not given.
    """

    def __init__(
        self, data: Any, words: Words, what: str, allowance: Allowance | None = None
    ) -> None:
        self.data = memoryview(data)
        self.at = 0
        self.what = what
        self.words = words
        self.allowance = allowance or Allowance(len(self.data))
        self.tables = Tables()
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []

    def load(self) -> Any:
        """The value of the pickle that begins here.

        Raises:
            FileFormatError: if it is damaged, or asks for what is not allowed.
        """
        begin = start = self.at
        self.memo, self.stack, self.marks = {}, [], []
        data, operations, costs, allowance = self.data, _OPERATIONS, _COSTS, self.allowance
        try:
            while True:
                start = self.at
                code = data[start]
                self.at = start + 1
                if code == 0x2E:  # STOP
                    break
                allowance.left -= costs[code]
                if allowance.left < 0:
                    allowance.spend(0)
                operations[code](self)
            value = self.stack.pop()
            check_size(value, self.at - begin)
        except Theirs as error:
            raise error.error from None
        except FileFormatError as error:
            raise FileFormatError(f"{self.what}: {error}") from None
        except _DAMAGE as error:
            raise FileFormatError(
                f"{self.what}: the pickle is damaged at byte {start} ({_reason(error)})"
            ) from None
        return value

    # reading the bytes --------------------------------------------------------------------------

    def take(self, size: int) -> memoryview:
        """The next bytes."""
        start, end = self.at, self.at + size
        if not 0 <= size <= len(self.data) - start:
            raise IndexError(f"{size} bytes are announced and {len(self.data) - start} are left")
        self.at = end
        self.allowance.left -= 4 * size  # a text of one character that needs four bytes
        return self.data[start:end]

    def number(self, form: struct.Struct) -> Any:
        """The next number."""
        return form.unpack(self.take(form.size))[0]

    def line(self) -> str:
        """The text up to the end of the line."""
        data, at = self.data, self.at
        end = at
        while data[end] != 0x0A:
            end += 1
            if end - at > 1000:
                raise ValueError("a name of more than 1,000 characters")
        self.at = end + 1
        return str(data[at:end], "utf-8")

    # the stack ----------------------------------------------------------------------------------

    def pop_mark(self) -> list[Any]:
        """What was pushed after the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def collect(self, make: Callable[[list[Any]], Any]) -> None:
        """Push what is made of the values after the last mark."""
        value = make(self.pop_mark())
        self.stack.append(value)

    def look_up(self, module: str, name: str) -> None:
        """Push what a name stands for."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("a name that is no text")
        self.stack.append(self.words.find(module, name))

    def call(self, function: Any, args: Any, keywords: Any = None) -> Any:
        """What a REDUCE or NEWOBJ gives."""
        if type(args) is not tuple:
            raise ValueError("arguments that are no tuple")
        self.allowance.spend(sum(map(weight, args)))
        if type(function) is Maker:
            if keywords:
                raise ValueError(f"{function.name} with keyword arguments")
            return function.make(self, *args) if function.keyed else function.make(*args)
        if type(function) is Trusted:
            return function.value(*args, **(keywords or {}))
        raise FileFormatError(f"the pickle calls {type(function).__name__}, which is no function")

    def check_keys(self, target: Any, keys: Iterable[Any]) -> None:
        """Refuse keys with which a dict or set would take long.

        Raises:
            FileFormatError: if comparing them is too much work.
            ValueError: if they are no keys of plain data, or were chosen to collide.
        """
        chosen, long = [], 0
        for key in keys:
            if type(key) is not str or len(key) > LONG:
                long += check_key(key)
                chosen.append(key)
        if chosen:
            self.allowance.spend(long)
            self.tables.admit(target, [key for key in chosen if type(key) not in (str, bytes)])

    def build(self) -> None:
        """Fill the object on the stack with the state above it."""
        state = self.stack.pop()
        target = self.stack[-1]
        kind = type(target)
        if kind in (OrderedDict, Counter):
            if type(state) is not dict or any(type(k) is not str for k in state):
                raise ValueError(f"attributes of {kind.__name__} that are no dict")
            self.allowance.spend(weight(state))
            vars(target).update(state)
        else:
            if type(state) is tuple:
                self.allowance.spend(sum(map(weight, state)))
            self.words.fill(target, state)


def _push(value: Any) -> Callable[[Machine], None]:
    return lambda m: m.stack.append(value)


def _push_new(make: Callable[[], Any]) -> Callable[[Machine], None]:
    return lambda m: m.stack.append(make())


def _push_number(code: str) -> Callable[[Machine], None]:
    form = struct.Struct(code)
    return lambda m: m.stack.append(m.number(form))


def _push_bytes(code: str, convert: Callable[[Any], Any]) -> Callable[[Machine], None]:
    form = struct.Struct(code)
    return lambda m: m.stack.append(convert(m.take(m.number(form))))


def _text(data: Any) -> str:
    return str(data, "utf-8", "surrogatepass")


def _old_text(data: Any) -> Any:
    """A string of Python 2: text where it is text."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return bytes(data)


def _long(data: Any) -> int:
    return int.from_bytes(data, "little", signed=True)


def _mark(m: Machine) -> None:
    m.marks.append(m.stack)
    m.stack = []


def _tuple(count: int) -> Callable[[Machine], None]:
    def run(m: Machine) -> None:
        if len(m.stack) < count:
            raise IndexError("the stack is empty")
        m.stack[-count:] = [tuple(m.stack[-count:])]

    return run


def _append(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) is not list and type(target) is not deque:
        raise ValueError(f"append to {type(target).__name__}")
    m.allowance.spend(16 * len(items))
    target.extend(items)


def _set_items(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) not in _MAPPINGS:
        raise ValueError(f"items for {type(target).__name__}")
    if len(items) % 2:
        raise ValueError("a key without a value")
    m.allowance.spend(ENTRY * (len(items) // 2))
    m.check_keys(target, items[::2])
    for key, value in zip(items[::2], items[1::2]):
        target[key] = value


def _add_items(m: Machine) -> None:
    items = m.pop_mark()
    target = m.stack[-1]
    if type(target) is not set:
        raise ValueError(f"members for {type(target).__name__}")
    m.allowance.spend(ENTRY * len(items))
    m.check_keys(target, items)
    target.update(items)


def _frozen(m: Machine) -> None:
    items = m.pop_mark()
    m.allowance.spend(ENTRY * len(items))
    m.check_keys(frozenset(), items)
    m.stack.append(frozenset(items))


def _set_item(m: Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _set_items(m, [key, value])


def _put(form: str) -> Callable[[Machine], None]:
    number = struct.Struct(form)

    def run(m: Machine) -> None:
        index = m.number(number)
        m.memo[index * _SALT & _WORD] = m.stack[-1]

    return run


def _get(form: str) -> Callable[[Machine], None]:
    number = struct.Struct(form)
    return lambda m: m.stack.append(m.memo[m.number(number) * _SALT & _WORD])


def _memoize(m: Machine) -> None:
    m.memo[len(m.memo) * _SALT & _WORD] = m.stack[-1]


def _reduce(m: Machine) -> None:
    args = m.stack.pop()
    m.stack[-1] = m.call(m.stack[-1], args)


def _new_object(m: Machine, keywords: Any = None) -> None:
    args, cls = m.stack.pop(), m.stack.pop()
    if type(cls) is Trusted and isinstance(cls.value, type) and type(args) is tuple:
        m.stack.append(cls.value.__new__(cls.value, *args, **(keywords or {})))
    else:
        m.stack.append(m.call(cls, args, keywords))


def _stack_global(m: Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    m.look_up(module, name)


def _protocol(m: Machine) -> None:
    protocol = m.take(1)[0]
    if not 2 <= protocol <= 5:
        raise ValueError(f"pickle protocol {protocol}")


def _refused(code: int) -> Callable[[Machine], None]:
    def run(m: Machine) -> None:
        raise ValueError(f"the opcode {code:#04x} is not one that plain data needs")

    return run


def _persistent(m: Machine) -> None:
    m.stack.append(m.words.storage(m.stack.pop()))


_TABLE: dict[str, Callable[[Machine], Any]] = {
    "(": _mark,
    "0": lambda m: m.stack.pop() if m.stack else m.pop_mark(),
    "1": lambda m: m.pop_mark(),
    "2": lambda m: m.stack.append(m.stack[-1]),
    "N": _push(None),
    "\x88": _push(True),
    "\x89": _push(False),
    ")": _push(()),
    "]": _push_new(list),
    "}": _push_new(dict),
    "\x8f": _push_new(set),
    "J": _push_number("<i"),
    "K": _push_number("<B"),
    "M": _push_number("<H"),
    "G": _push_number(">d"),
    "\x8a": _push_bytes("<B", _long),
    "\x8b": _push_bytes("<i", _long),
    "X": _push_bytes("<I", _text),
    "\x8c": _push_bytes("<B", _text),
    "\x8d": _push_bytes("<Q", _text),
    "U": _push_bytes("<B", _old_text),
    "T": _push_bytes("<i", _old_text),
    "B": _push_bytes("<I", bytes),
    "C": _push_bytes("<B", bytes),
    "\x8e": _push_bytes("<Q", bytes),
    "\x96": _push_bytes("<Q", bytearray),
    "t": lambda m: m.collect(tuple),
    "\x85": _tuple(1),
    "\x86": _tuple(2),
    "\x87": _tuple(3),
    "a": lambda m: _append(m, [m.stack.pop()]),
    "e": lambda m: _append(m, m.pop_mark()),
    "s": _set_item,
    "u": lambda m: _set_items(m, m.pop_mark()),
    "\x90": _add_items,
    "\x91": _frozen,
    "c": lambda m: m.look_up(m.line(), m.line()),
    "\x93": _stack_global,
    "R": _reduce,
    "\x81": _new_object,
    "\x92": lambda m: _new_object(m, m.stack.pop()),
    "b": Machine.build,
    "Q": _persistent,
    "q": _put("<B"),
    "r": _put("<I"),
    "h": _get("<B"),
    "j": _get("<I"),
    "\x94": _memoize,
    "\x80": _protocol,
    "\x95": lambda m: m.take(8) and None,  # FRAME: its length says nothing that is needed
}
# bytes that an operation may make besides the text that it reads: the object, its place on the
# stack, in the memo, in a list; a dict or set of one member keeps room for five
_COSTS = [24] * 256
for _code, _cost in {
    "}": 80, "\x8f": 232, "]": 72, "(": 80, "q": 160, "r": 160, "\x94": 160, "s": 100, "a": 48,
    "R": 900, "\x81": 900, "\x92": 900, "Q": 200, "c": 80, "\x93": 80, "\x91": 232, "b": 200,
    "\x85": 64, "\x86": 64, "\x87": 72, "t": 64, "G": 40, "J": 48, "M": 48, "\x8a": 48,
}.items():  # fmt: skip
    _COSTS[ord(_code)] = _cost
_OPERATIONS = [_TABLE.get(chr(code)) or _refused(code) for code in range(256)]
_DAMAGE = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
    struct.error,
)  # fmt: skip


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"it refers to {str(error.args[0])[:40]}, which it has not defined"
    return str(error)[:200] or type(error).__name__
