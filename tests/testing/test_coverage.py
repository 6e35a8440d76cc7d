"""The coverage page says what is so, and keeps what was reached."""

import pytest

from fx.testing.coverage import page, rows
from fx.testing.coverage.page import PAGE
from fx.testing.coverage.rows import LISTS, read_lists, row


@pytest.fixture(scope="module")
def found():
    return {r.title: r for r in rows()}


def test_the_page_is_true(found):
    assert PAGE.read_text() == page(found.values()), (
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
        "torch.fft": 1,
    }.items():  # fmt: skip
        assert found[title].share >= share, title


def test_a_name_that_is_missing_is_told():
    r = row("torch", ["sin", "no_such_name", "sparse_coo_tensor", "lobpcg"])
    assert r.there == ["sin"]
    assert r.aside == {"sparse": ["sparse_coo_tensor"]}
    assert r.missing["no_such_name"] == "not yet"
    assert "eigh" in r.missing["lobpcg"]
    assert r.share == pytest.approx(1 / 3)


@pytest.mark.parametrize("title", ["torch", "torch.nn.functional", "torch.linalg"])
def test_the_lists_are_those_of_the_peer(title):
    pytest.importorskip("torch")
    from fx.testing.coverage.peers import names_of

    assert sorted(names_of(title)) == read_lists()[title]
