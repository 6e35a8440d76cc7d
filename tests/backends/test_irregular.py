"""What Numba is asked to make of a kernel: its text."""

import numba
from numba.core import codegen

from fx.backends.cpu.irregular import language, margins
from fx.backends.cpu.llvm import engine


def test_kernels_and_helpers_get_no_machine_code_of_numbas(monkeypatch):
    """What others compile meanwhile, and afterwards, does."""
    made, add = [], codegen.JitEngine.add_module

    def seen(self, module):
        made.extend(f.name for f in module.functions if not f.is_declaration)
        add(self, module)

    monkeypatch.setattr(codegen.JitEngine, "add_module", seen)
    text = language.text_of(margins.multilabel, "f", "multilabel")
    assert "9irregular" in text  # in the names of what it is
    numba.njit(lambda x: x + 1)(2)
    assert made and not [name for name in made if "9irregular" in name]
    assert engine.Loaded([engine.compile_text(text)], ["multilabel"], {}).address("multilabel")
