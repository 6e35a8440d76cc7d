"""The Python functions that compiled code becomes."""

import ctypes
import gc

from fx.backends.cpu.llvm import python_api

DEFINITION = 16  # where a builtin's object has the address of its definition


def test_a_definition_lies_in_memory_that_only_the_builtin_lets_go():
    # In a circle the collector empties the attributes of ``me`` before the builtin goes, which
    # reads its definition once more.
    for words in (1, 2, 39):
        me = python_api.owner(words)
        name = "run" * words
        run = python_api.builtin(name, id(None), me)
        vars(me).clear()
        gc.collect()
        assert run.__self__ is me
        assert run.__name__ == name[:63]
        address = ctypes.c_uint64.from_address(id(run) + DEFINITION).value
        assert me.ctypes.data + 8 * words <= address < me.ctypes.data + me.nbytes
        assert not me[:words].any()
