"""The coverage page says what is so, and keeps what was reached."""

from zlib import crc32

import numpy as np
import pytest

import fx
from fx.testing.coverage import page, read_states, rows
from fx.testing.coverage.page import PAGE
from fx.testing.coverage.probe import Call, states
from fx.testing.coverage.rows import LISTS, read_lists, row
from fx.testing.coverage.states import probed


@pytest.fixture(scope="module")
def found():
    return {r.title: r for r in rows()}


def test_the_page_is_true(found):
    assert PAGE.read_text() == page(found.values(), read_states()), (
        "write it: python -m fx.testing.coverage --write"
    )


def test_every_list_has_a_row(found):
    assert [*read_lists()] == [*LISTS] == [*found]
    for title, names in read_lists().items():
        r = found[title]
        told = [*r.there, *r.missing, *(n for some in r.aside.values() for n in some)]
        assert sorted(told) == sorted(names)


def test_what_was_reached_stays(found):
    for title, share in {
        "Array API 2024.12": 1, "Array API 2024.12: linalg": 1, "Array API 2024.12: fft": 1,
        "torch.nn.functional": 1, "torch": 0.95, "torch.Tensor": 0.95, "torch.special": 1,
        "torch.fft": 1, "torch.distributed": 0.9, "torch.distributed.algorithms": 0.9,
        "torch.distributed.fsdp": 1, "torch.distributed.launcher": 1, "torch.distributed.nn": 1,
        "torch.distributed.optim": 1, "torch.distributed.rpc": 1, "torch.distributed.tensor": 0.9,
        "torch.distributed.pipelining": 0.9,
    }.items():  # fmt: skip
        assert found[title].share >= share, title


def test_a_name_that_is_missing_is_told():
    r = row("torch", ["sin", "no_such_name", "sparse_coo_tensor", "from_file"])
    assert r.there == ["sin"]
    assert r.aside == {"sparse": ["sparse_coo_tensor"]}
    assert r.missing["no_such_name"] == "not yet"
    assert "memmap" in r.missing["from_file"]
    assert r.share == pytest.approx(1 / 3)
    r = row("torch.distributed.checkpoint", ["save", "metadata.Metadata", "no_such_room.name"])
    assert r.there == ["save"] and "read_metadata" in r.missing["metadata.Metadata"]


def test_every_name_of_several_ranks_that_is_missing_has_a_word(found):
    for title, r in found.items():
        if title.startswith("torch.distributed"):
            assert "not yet" not in r.missing.values(), title


TITLES = ["torch", "torch.nn.functional", "torch.linalg", "torch.distributed.rpc"]


@pytest.mark.parametrize("title", TITLES)
def test_the_lists_are_those_of_the_peer(title):
    pytest.importorskip("torch")
    from fx.testing.coverage.peers import names_of

    assert sorted(names_of(title)) == read_lists()[title]


def test_every_name_that_is_there_has_a_state(found):
    assert {t: sorted(names) for t, names in read_states().items()} == {
        t: sorted(r.there) for t, r in found.items()
    }


PARTS = 40  # of which a run looks at one


@pytest.mark.parametrize("title", LISTS)
def test_states_are_what_the_probe_says(title):
    for name, kept in read_states()[title].items():
        if crc32(f"{title}/{name}".encode()) % PARTS == 0:
            assert probed(title, name) == kept, name


def test_the_probe_sees_what_does_not_hold():
    """A function with each rule wrong or missing in turn."""
    constant = np.array([1.0, 2.0, 3.0])

    def wrong_slope(x):
        return fx.where(x > 0, x.detach(), 0) ** 2

    def no_lanes(x):
        return x + x.numpy().sum()

    first = []

    def frozen(x):
        first.append(0)
        return x * len(first)

    of = lambda function: states(Call(function, "f(X)", {"X": constant}))
    assert [of(fx.sin), of(fx.argsort), of(fx.torch.rand_like)] == ["gjvcm", "vcm", "gjvcm"]
    assert of(wrong_slope) == "GJvcm"
    assert of(lambda x: x * fx.asarray(constant)) == "gjvcM"
    assert "V" in of(no_lanes)
    assert "C" in of(frozen)
