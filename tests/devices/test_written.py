"""Programs that write, on a device whose arrays say no more than a backend has to."""

import fx.torch as torch


def test_views_are_noted_once_a_program_writes(fake):
    torch.zeros(2)[0] = 1.0  # from here on
    x = torch.arange(6.0, device="fake:0")
    rows = x.reshape(2, 3)
    assert rows.reshape(3, 2).cpu().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert x[:1].reshape(1, 1).cpu().tolist() == [[0]]
