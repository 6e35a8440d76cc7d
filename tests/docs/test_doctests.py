"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import fx

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
OPTIONAL = {"fx.examples.digits"}  # needs the examples' extra
NAMES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(fx.__path__, "fx.")
    if name not in OPTIONAL and not name.endswith("__main__")
)


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    module = importlib.import_module(name)
    for case in doctest.DocTestFinder(exclude_empty=True).find(module, name, module=module):
        if case.examples:
            printed: list[str] = []
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            runner.run(case, out=printed.append)
            assert not runner.failures, "".join(printed)


def test_public_functions_have_an_example():
    names = [n for n in dir(fx) if not n.startswith("_") and callable(getattr(fx, n))]
    functions = [getattr(fx, n) for n in names if type(getattr(fx, n)).__name__ == "function"]
    without = [f.__name__ for f in functions if ">>>" not in (f.__doc__ or "")]
    assert without == []
