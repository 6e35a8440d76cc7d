"""``nn.modules``: what scripts reach by PyTorch's places."""

import pytest

import fx

torch = pytest.importorskip("torch")

from fx.nn import modules


def test_layers_stand_in_torchs_places():
    for name in dir(torch.nn):
        theirs, ours = getattr(torch.nn, name), getattr(fx.nn, name, None)
        if not isinstance(theirs, type) or ours is None or ".modules." not in theirs.__module__:
            continue
        place = theirs.__module__.rpartition(".")[2]
        assert getattr(getattr(modules, place), name) is ours, f"{place}.{name}"
        assert getattr(modules, name) is ours


def test_base_classes_and_tuples():
    assert isinstance(fx.nn.BatchNorm2d(3), modules.batchnorm._BatchNorm)
    assert not isinstance(fx.nn.InstanceNorm2d(3), modules.batchnorm._BatchNorm)
    assert isinstance(fx.nn.ConvTranspose1d(3, 2, 1), modules.conv._ConvNd)
    assert isinstance(fx.nn.Dropout(), modules.dropout._DropoutNd)
    for name in ("_single", "_pair", "_triple", "_quadruple"):
        for value in (3, (1, 2), [1, 2]):
            expected = getattr(torch.nn.modules.utils, name)(value)
            assert getattr(modules.utils, name)(value) == expected
    with pytest.raises(AttributeError, match=r"'fx\.nn\.modules\.conv' has no attribute 'x'"):
        modules.conv.x


def test_a_prefix_is_taken_off_as_by_pytorch():
    name = "consume_prefix_in_state_dict_if_present"
    ours = fx.nn.ModuleDict({"module": fx.nn.Sequential(fx.nn.Linear(2, 3), fx.nn.BatchNorm1d(3))})
    theirs = torch.nn.ModuleDict(
        {"module": torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))}
    )
    mine, other = ours.state_dict(), theirs.state_dict()
    for state in (mine, other):
        state["module"] = state["step"] = 0
    getattr(fx.nn.modules.utils, name)(mine, "module.")
    getattr(torch.nn.modules.utils, name)(other, "module.")
    assert list(mine) == list(other)
    assert sorted(getattr(mine, "_metadata", {})) in ([], sorted(other._metadata))
    ours["module"].load_state_dict({k: v for k, v in mine.items() if k not in ("module", "step")})
