"""The notation in which the functions around kernels are written: LLVM IR, and a few lines more.

Those functions read and write words and fields of objects: half of their IR would be addresses.
``expanded`` makes IR of:

| line | what it stands for |
| --- | --- |
| ``%x = load i64, %p[3]`` | word 3 behind a pointer; a number or an i64 |
| ``%x = load ptr, %a->data`` | a field of an object, by ``python_api.FIELDS`` |
| ``store ptr %x, %p[3]`` | the same ways to store |
| ``%x = &%p[3]``, ``%x = &%a->data`` | the address of a word or field |
| ``br ptr %x == null ? yes : no`` | a branch by ``==``, ``!=``, ``<`` or ``>``, signed |
| ``br %c ? yes : no``, ``br next`` | branches |
| ``if i64 %n > 0 {``, ``if %c {`` … ``}`` | what is done under a condition |
| ``for %i < %n {`` … ``}`` | what is done for each i64 from 0 on |

A function begins with a label, and all its labels have names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACE = r"(?P<base>[%@][\w.]+)(?:\[(?P<word>[^\]]+)\]|->(?P<field>\w+))"
_LOAD = re.compile(rf"(?P<to>%[\w.]+) = load (?P<type>\w+), {_PLACE}$")
_STORE = re.compile(rf"store (?P<value>\w+ \S+), {_PLACE}$")
_ADDRESS = re.compile(rf"(?P<to>%[\w.]+) = &{_PLACE}(?:  ;.*)?$")
_CONDITION = r"(?:(?P<type>\w+) (?P<x>\S+) (?P<op>==|!=|<|>) (?P<y>\S+)|(?P<known>%[\w.]+))"
_BRANCH = re.compile(rf"br {_CONDITION} \? (?P<yes>[\w.]+) : (?P<no>[\w.]+)$")
_IF = re.compile(rf"if {_CONDITION} {{$")
_FOR = re.compile(r"for (?P<i>%[\w.]+) < (?P<n>\S+) {$")
_COMPARE = {"==": "eq", "!=": "ne", "<": "slt", ">": "sgt"}
_ENDS = ("define ", "br ", "ret ", "switch ", "]", "unreachable")  # "]" ends a switch


class _Expansion:
    def __init__(self, fields: Mapping[str, int]) -> None:
        self.fields = fields
        self.lines: list[str] = []
        self.label = ""
        self.count = 0
        self.open: list[tuple[str, str, int]] = []  # blocks: kind, name, line of the phi

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def add(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def ended(self) -> bool:
        return self.lines[-1].strip().startswith(_ENDS)

    def place(self, found: Mapping[str, str], at: str = "") -> str:
        """The address of a word or field."""
        at = at or f"%{self.name()}"
        if found["word"] is not None:
            self.add(f"{at} = getelementptr i64, ptr {found['base']}, i64 {found['word']}")
        else:
            field = self.fields[found["field"]]
            self.add(f"{at} = getelementptr i8, ptr {found['base']}, i64 {field}")
        return at

    def condition(self, found: Mapping[str, str]) -> str:
        if found["known"]:
            return found["known"]
        name = f"%{self.name()}"
        op = _COMPARE[found["op"]]
        self.add(f"{name} = icmp {op} {found['type']} {found['x']}, {found['y']}")
        return name

    def line(self, line: str) -> None:
        if found := _LOAD.match(line):
            at = self.place(found.groupdict())
            self.add(f"{found['to']} = load {found['type']}, ptr {at}")
        elif found := _STORE.match(line):
            at = self.place(found.groupdict())
            self.add(f"store {found['value']}, ptr {at}")
        elif found := _ADDRESS.match(line):
            self.place(found.groupdict(), found["to"])
        elif found := _BRANCH.match(line):
            known = self.condition(found.groupdict())
            self.add(f"br i1 {known}, label %{found['yes']}, label %{found['no']}")
        elif found := re.fullmatch(r"br ([\w.]+)", line):
            self.add(f"br label %{found[1]}")
        elif found := _IF.match(line):
            name, known = self.name(), self.condition(found.groupdict())
            self.add(f"br i1 {known}, label %{name}.then, label %{name}.on")
            self.begin(f"{name}.then")
            self.open.append(("if", name, 0))
        elif found := _FOR.match(line):
            self.loop(self.name(), found["i"], found["n"])
        elif line == "}" and self.open:
            self.end(*self.open.pop())
        elif found := re.fullmatch(r"([\w.]+):", line):
            if not self.ended():
                self.add(f"br label %{found[1]}")
            self.begin(found[1])
        elif not line or line.startswith(("define ", "declare ", "@", ";", "}")):
            self.lines.append(line)
        else:
            self.add(line)

    def loop(self, name: str, i: str, n: str) -> None:
        before = self.label
        self.add(f"br label %{name}.look")
        self.begin(f"{name}.look")
        self.add(f"{i} = phi i64 [ 0, %{before} ], [ {i}.next, %@ ]")
        self.open.append(("for", f"{name} {i}", len(self.lines) - 1))
        self.add(f"{i}.more = icmp slt i64 {i}, {n}")
        self.add(f"br i1 {i}.more, label %{name}.body, label %{name}.on")
        self.begin(f"{name}.body")

    def end(self, kind: str, name: str, phi: int) -> None:
        if kind == "for":
            name, i = name.split()
            self.add(f"{i}.next = add i64 {i}, 1")
            self.lines[phi] = self.lines[phi].replace("%@", f"%{self.label}")
            self.add(f"br label %{name}.look")
        elif not self.ended():
            self.add(f"br label %{name}.on")
        self.begin(f"{name}.on")


def expanded(text: str, fields: Mapping[str, int]) -> str:
    """The IR that a text in this notation stands for.

    Args:
        text: functions, declarations and globals.
        fields: offsets of fields of objects, in bytes.

    Example:
        >>> text = (
        ...     "define i64 @size(ptr %a) {\\nentry:\\n  %n = load i64, %a->size\\n  ret i64 %n\\n}"
        ... )
        >>> print(expanded(text, {"size": 16}))
        define i64 @size(ptr %a) {
        entry:
          %t1 = getelementptr i8, ptr %a, i64 16
          %n = load i64, ptr %t1
          ret i64 %n
        }
    """
    expansion = _Expansion(fields)
    for line in text.split("\n"):
        expansion.line(line.strip())
    return "\n".join(expansion.lines)
