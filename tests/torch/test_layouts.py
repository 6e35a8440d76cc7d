"""How results lie in memory: ``stride()`` and ``is_contiguous()`` as torch's, but where named.

What ``view``, ``contiguous`` and ``reshape`` of a result share with it hangs on this.
"""

import pytest

import fx.torch
from fx.writing import noting

torch = pytest.importorskip("torch")

SAME = """
x.clone(); x + 1; x * x; -x; x.exp(); x.sin(); torch.relu(x); torch.sigmoid(x); x.abs(); x > 0
torch.where(x > 0, x, x); x.softmax(0); torch.zeros_like(x); torch.ones_like(x); x.pow(2)
torch.empty_like(x); torch.full_like(x, 2); torch.rand_like(x); torch.randn_like(x); x.double()
x.detach().clone(); x.flip(0); x.sum(0); x.mean(-1); x.argmax(0); x.clamp(0, 1); x.tril(); x.round()
x.masked_fill(x > 0, 0.); x.index_select(0, i); x.gather(0, g); x.floor(); x + x.sum(); x.bool()
x.fmod(2); x.long(); x.logical_not(); x.isnan(); F.gelu(x); F.silu(x); F.leaky_relu(x); x.T
x.nan_to_num(); x.contiguous(); x.reshape(-1); x[i]; x.diff(dim=0); x.repeat_interleave(2, 0)
torch.maximum(x, y); x / y; torch.cat([x, y]); torch.stack([x, y]); x.cumsum(0); x.sort(0).values
x.roll(1, 0); x.nonzero(); x @ x.transpose(-1, -2); F.dropout(x, 0.5); x.index_fill(0, i, 0.)
""".replace("\n", ";")

# what lies in the order of the axes here; of operands that lie differently the order is NumPy's
KNOWN = {
    "torch.cat([x, y])", "torch.stack([x, y])", "x.sort(0).values",
    "x.roll(1, 0)", "x.nonzero()", "F.dropout(x, 0.5)", "x.index_fill(0, i, 0.)",
    "torch.maximum(x, y)", "x / y", "x[i]", "x.masked_fill(x > 0, 0.)",
}  # fmt: skip


def layouts(of):
    a = of.arange(24.0).reshape(4, 6) - 7
    b = of.arange(24.0).reshape(2, 3, 4) - 7
    return {
        "dense": (a, a + 1),
        "transposed": (a.T, (a + 1).T),
        "one transposed": (a.T, (a.T + 1).contiguous()),
        "gaps": (a[:, ::2], a[:, 1::2]),
        "rows": (a[::2], a[1::2]),
        "turned": (b.permute(2, 0, 1), b.permute(2, 0, 1) + 1),
        "turned, dense": (b.permute(2, 1, 0), (b.permute(2, 1, 0) + 1).contiguous()),
        "a slice": (b[:, 1:], b[:, :2]),
    }


def layout_of(of, text, name):
    x, y = layouts(of)[name]
    names = {"i": of.tensor([0, 1]), "g": of.zeros(x.shape, dtype=of.int64), "F": of.nn.functional}
    out = eval(text, {"torch": of, "x": x, "y": y, **names})
    return [s for s, n in zip(out.stride(), out.shape) if n > 1], out.is_contiguous()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", [text.strip() for text in SAME.split(";") if text.strip()])
def test_results_lie_as_in_torch(text):
    differ = [
        name
        for name in layouts(torch)
        if layout_of(torch, text, name) != layout_of(fx.torch, text, name)
    ]
    if text in KNOWN:
        assert differ, "this lies as in torch by now; take it off the list"
    else:
        assert not differ


OF_ONES = (
    "x[None]", "x.T[None]", "x[:, None, :, None]", "x[:, 1:][None]", "x.unfold(0, 3, 1)[None]",
    "x[None].expand(2, 3, 3)", "x[:1].expand(3, 3)[None]",
)  # fmt: skip


@pytest.mark.parametrize("wrote", [False, True])
@pytest.mark.parametrize("view", OF_ONES)
def test_axes_of_one_repeat_nothing(view, wrote, first_writes_look_at_what_the_file_made):
    """``x[None]`` has no step along its first axis in NumPy, and lies as ``x`` does."""
    found = []
    noting.forget()
    for room in (torch, fx.torch):
        if wrote:
            room.zeros(2).view(1, 2)[0] = 1.0
        x = room.arange(9.0).view(3, 3)
        y = eval(view, {"x": x})
        told = y.stride(), y.is_contiguous()
        z = y.contiguous()
        z[z > 3] /= 4.0
        found.append((told, x.tolist(), z.tolist()))
    assert found[0] == found[1]
