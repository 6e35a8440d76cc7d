"""Operators beside ``torch.nn.functional``, view copies, ``torch.masked``: values and gradients.

A line is evaluated under torch and under fx.torch. Its floating results are weighed and summed,
and the gradients of ``x``, ``y`` and ``t`` are compared too.
"""

# ruff: noqa: E501 - an expression a line

import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.masked")

import fx
import fx.torch
from fx.torch import _absent

rng = np.random.default_rng(0)
FLOATING = {
    "x": rng.standard_normal((3, 4)),
    "y": rng.standard_normal((3, 4)),
    "t": rng.standard_normal((2, 4, 3)),
    "g": rng.random((2, 3, 3, 2)) - 0.5,
    "im": rng.standard_normal((2, 4, 5, 6)),
    "sq": rng.standard_normal((3, 3)),
    "w1": rng.standard_normal((8, 3)),
    "w2": rng.standard_normal((8, 2)),
    "w3": rng.standard_normal((8, 4)),
    "u1": rng.standard_normal((8,)),
    "u2": rng.standard_normal((8,)),
}  # fmt: skip
OTHERS = {
    "p": rng.random((3, 4)) * 0.8 + 0.1,
    "sign": np.where(rng.random((3, 4)) < 0.5, -1.0, 1.0),
    "one": np.array([1.0, -1.0, 1.0]),
    "m": rng.random((3, 4)) < 0.6,
    "i": rng.integers(0, 3, (5,)),
    "n": np.array([1, 0, 2]),
    "z": rng.standard_normal(3) + 1j * rng.standard_normal(3),
}
OTHERS["m"][1] = False  # a row of which nothing is left
OTHERS["part"] = OTHERS["m"] | (np.arange(4) < 2)  # none such

LINES = """
torch.binary_cross_entropy_with_logits(x, p)
torch.binary_cross_entropy_with_logits(x, p, p, p[0], 2)
torch.kl_div(x, p)
torch.kl_div(x, y, 0, log_target=True)
torch.kl_div(x, p, reduction=2)
torch.ctc_loss(t.log_softmax(-1), torch.tensor([[1, 2]] * 4), [2] * 4, [1] * 4)
torch.ctc_loss(t.log_softmax(-1), torch.tensor([[1]] * 4), [2] * 4, [1] * 4, 0, 0, True)
torch.cosine_embedding_loss(x, y, one, 0.1)
torch.cosine_embedding_loss(x, y, one, reduction=0)
torch.hinge_embedding_loss(x, sign, 0.5, 2)
torch.margin_ranking_loss(x, y, sign, 0.1, 0)
torch.poisson_nll_loss(x, p, True, True, 1e-8, 1)
torch.poisson_nll_loss(p, p, False, False, 1e-8, 0)
torch.triplet_margin_loss(x, y, p, 1.5, 2.0, 1e-6, True, 0)
torch.embedding_bag(x, i, torch.tensor([0, 2]))[0]
torch.embedding_bag(x, i, torch.tensor([0, 2, 2]), mode=2)[0]
torch.embedding_bag(x, i, torch.tensor([0, 2, 5]), False, 0, False, u1[:5], True)[0]
torch.instance_norm(t, x[0], y[0], None, None, True, 0.1, 1e-5, False)
torch.grid_sampler(im, g, 0, 0, False)
torch.grid_sampler_2d(im, g, 1, 1, True)
torch.grid_sampler(im, g, 2, 2, True)
torch.grid_sampler_3d(im[:, None], torch.cat([g, g[..., :1]], -1)[:, :, :, None], 0, 1, False)
torch.affine_grid_generator(t[:, :2], [2, 1, 4, 5], False)
torch.convolution(t, w1[:, :, None].expand(8, 3, 1).transpose(0, 1)[:, :4], None, [1], [0], [1], False, [0], 1)
torch.convolution(im, w3[:, :, None, None], u1, [2, 1], [1, 0], [1, 1], False, [0, 0], 1)
torch.convolution(im, w3[:4, :, None, None], None, [2, 2], [0, 0], [1, 1], True, [1, 1], 1)
torch.conv_tbc(t, w3.reshape(2, 4, 4)[:, :3], x[0], 1)
torch.max_pool1d_with_indices(t, 2)
torch.native_channel_shuffle(im.detach(), 2)
torch.native_layer_norm(x, [4], y[0], p[0], 1e-5)
torch.native_layer_norm(t, [4, 3], None, None, 1e-5)
torch.native_group_norm(im, x[0], y[0], 2, 4, 30, 2, 1e-5)
torch.native_batch_norm(im, x[0], y[0], None, None, True, 0.1, 1e-5)
torch.native_batch_norm(im, x[0], y[0], p[0], p[1], False, 0.1, 1e-5)
torch.native_dropout(x, 0.5, False)
torch.native_dropout(x, 0.0, True)
torch.feature_dropout(im, 0.5, False)
torch.dropout_(x.clone(), 0.5, False)
torch.alpha_dropout_(x.clone(), 0.5, False)
torch.feature_dropout_(im.clone(), 0.5, False)
torch.feature_alpha_dropout_(im.clone(), 0.5, False)
torch.dropout_(x.clone(), 1.0, True)
torch.celu_(x.clone(), 0.5)
torch.selu_(x.clone())
torch.rrelu_(x.clone(), 0.1, 0.3, False)
torch.threshold_(x.clone(), 0.1, -1.0)
torch.lstm(t, (x[None, :, :2].expand(1, 3, 2)[:, :1].expand(1, 4, 2), y[None, :1, :2].expand(1, 4, 2)), (w1, w2, u1, u2), True, 1, 0.0, False, False, False)
torch.lstm(t, (x[:2, :1, None].expand(2, 2, 2), y[:2, :1, None].expand(2, 2, 2)), (w1, w2, w1, w2), False, 1, 0.0, True, True, True)
torch.lstm(t, (x[:2, :1, None].expand(2, 4, 2), y[:2, :1, None].expand(2, 4, 2)), (w1, w2, u1, u2, w2, w2, u2, u1), True, 2, 0.0, True, False, False)
torch.lstm(t, (x[:1, :1, None].expand(1, 4, 1), y[:1, :1, None].expand(1, 4, 2)), (w1, w2[:, :1], sq[:1, :2]), False, 1, 0.0, False, False, False)
torch.gru(t, x[:1, :1, None].expand(1, 4, 2), (w1[:6], w2[:6], u1[:6], u2[:6]), True, 1, 0.0, False, False, False)
torch.gru(t.reshape(8, 3), torch.tensor([4, 3, 1]), x[:1, :1, None].expand(1, 4, 2), (w1[:6], w2[:6]), False, 1, 0.0, False, False)
torch.rnn_tanh(t, x[:1, :1, None].expand(1, 4, 2), (w1[:2], w2[:2], u1[:2], u2[:2]), True, 1, 0.0, False, False, False)
torch.rnn_relu(t, x[:1, :1, None].expand(1, 4, 2), (w1[:2], w2[:2]), False, 1, 0.0, False, False, False)
torch.lstm_cell(t[0], (x[:1, :2].expand(4, 2), y[:1, :2].expand(4, 2)), w1, w2, u1, u2)
torch.gru_cell(t[0], x[:1, :2].expand(4, 2), w1[:6], w2[:6], u1[:6], u2[:6])
torch.gru_cell(t[0], x[:1, :2].expand(4, 2), w1[:6], w2[:6])
torch.rnn_tanh_cell(t[0], x[:1, :2].expand(4, 2), w1[:2], w2[:2], u1[:2], u2[:2])
torch.rnn_relu_cell(t[0], x[:1, :2].expand(4, 2), w1[:2], w2[:2], u1[:2], u2[:2])
torch.frobenius_norm(x, 1)
torch.frobenius_norm(t, [0, 2], True)
torch.frobenius_norm(x, [])
torch.nuclear_norm(x)
torch.nuclear_norm(t, (0, 2), keepdim=True)
torch.norm_except_dim(t, 2, 1)
torch.norm_except_dim(x, 1, -1)
torch.lu(sq)
torch.lu(sq, get_infos=True)
torch.lu_unpack(*torch.lu(sq.detach()))
torch.lu_unpack(*torch.lu(sq.detach()), unpack_data=False)
torch.lu_unpack(*torch.lu(sq.detach()), unpack_pivots=False)
torch.is_conj(z)
torch.is_neg(x)
torch.is_distributed(x)
torch.frexp(x * 9)
torch.histogramdd(x.detach()[:, :2], 3)
torch.histogramdd(x.detach()[:, :2], [2, 3], range=[-1.0, 1.0, -2.0, 2.0], weight=p[:, 0], density=True)
torch.binomial(torch.full((3,), 7.0), torch.tensor([0.0, 1.0, 1.0]))
torch.segment_reduce(x, 'sum', lengths=n)
torch.segment_reduce(x, 'mean', lengths=n)
torch.segment_reduce(x, 'max', lengths=n)
torch.segment_reduce(x, 'min', lengths=n, initial=0.3)
torch.segment_reduce(x[:, 0], 'prod', offsets=torch.tensor([0, 1, 3]), initial=2.0)
torch.segment_reduce(x, 'mean', lengths=n, initial=2.0)
torch.nonzero_static(m, size=3)
torch.nonzero_static(m, size=15, fill_value=7)
torch.empty_permuted((2, 3, 4), (1, 2, 0)).shape
torch.alias_copy(x)
torch.as_strided_copy(x, (2, 3), (4, 1), 1)
torch.as_strided_scatter(x.detach(), y[:2, :3], (2, 3), (4, 1), 1)
torch.detach_copy(x.detach())
torch.diagonal_copy(t, 0, 1, 2)
torch.expand_copy(x, (2, 3, 4))
torch.narrow_copy(x, 1, 1, 2)
torch.permute_copy(t, (2, 0, 1))
torch.select_copy(x, 1, 2)
torch.slice_copy(x, 1, 1, 4, 2)
torch.split_copy(x, 2, 1)
torch.split_with_sizes_copy(x, [1, 3], 1)
torch.squeeze_copy(x[:, None], 1)
torch.t_copy(x)
torch.transpose_copy(t, 0, 2)
torch.unbind_copy(x, 1)
torch.unsqueeze_copy(x, 1)
torch.view_as_complex_copy(x.detach()[:, :2])
torch.view_as_real_copy(z)
torch.view_copy(x, (2, 6))
torch.unsafe_split_with_sizes(x, [1, 3], 1)
torch.sym_float(3)
torch.sym_int(-2.7)
torch.sym_max(2, 3.5)
torch.sym_min(2, 3.5)
torch.sym_max(4, 3.5)
torch.sym_not(True)
torch.sym_sum([1, 2, 3])
torch.sym_sqrt(4)
torch.sym_ite(False, 1, 2)
torch.sym_fresh_size(3)
torch.sym_constrain_range(3, min=2, max=4)
torch.sym_constrain_range_for_size(3, min=2)
[torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()]
torch.clear_autocast_cache()
torch.get_autocast_cpu_dtype()
torch.get_autocast_gpu_dtype()
torch.is_autocast_cpu_enabled()
torch.is_autocast_cache_enabled()
torch.is_anomaly_check_nan_enabled()
torch.is_vulkan_available()
torch.init_num_threads()
x.detach().as_strided_scatter(y[:2, :3], (2, 3), (4, 1), 1)
(x * 9).frexp()
sq.lu()
sq.matrix_exp()
sq.detach().geqrf()[0]
torch.geqrf(sq.detach())[1]
torch.lobpcg(sq @ sq.T, niter=200, tol=1e-12)[0]
x.narrow_copy(1, 1, 2)
m.nonzero_static(size=2)
(sq @ sq.T).qr()[1].abs()
sq.svd()[1]
sq.pinverse()
sq.orgqr(u1[:3])
sq.ormqr(u1[:3], x)
x.prelu(y[0, :1])
x.unsafe_chunk(2, 1)
x.unsafe_split(2, 1)
x.unsafe_split_with_sizes([1, 3], 1)
x.is_set_to(y)
x.is_set_to(x)
x.new_empty_strided((2, 3), (3, 1)).shape
[getattr(torch.special, f)(y.detach(), x.detach() * 3) for f in ("chebyshev_polynomial_t", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")]
torch.special.chebyshev_polynomial_u(m, m)
torch.special.shifted_chebyshev_polynomial_w(x.detach(), m)
[x.norm("nuc"), t.norm("nuc", (0, 2)), torch.norm(t, "nuc", [1, 2], True)]
[torch.masked.prod(x[0, 0], dim=0, keepdim=True), torch.masked.prod(t, (0, 2), mask=t > 0)]
[torch.masked.prod(i.to(torch.uint8), 0), torch.masked.cumsum(i.to(torch.uint8), 0), torch.masked.prod(m, 1)]
torch.masked.var(x.half(), 1).dtype
[torch.linspace(x[0, 0].float().detach(), 2, 50, dtype=torch.float64), torch.linspace(-2, p[0, 0], 7).dtype]
[torch.linspace(torch.tensor(-3.0), 5, 9, dtype=d) for d in (torch.int64, torch.float64, torch.complex128)]
[torch.cov(x, fweights=n.repeat(2)[:4], aweights=p[0]), x.cov(aweights=p[0], correction=0), x.cov(aweights=p[0].float()).dtype]
[torch.gather(x[0], 0, i.new_zeros(2, 0)), x.gather(1, i.new_zeros(0))]
[torch.masked.var(z, 0), torch.masked.std(z, 0, mask=m[0, :3]), torch.masked.var(z.real, 0, mask=m[0, :3])]
[x.bfloat16().sum_to_size(1, 4).float(), torch.gradient(y.bfloat16())[0].float(), torch.masked.prod(x.bfloat16(), 0).dtype]
[torch.istft(torch.polar(t[0].exp(), t[0]), 4, window=p[0], return_complex=True), torch.istft(torch.polar(t[0].exp(), t[0]), 4, window=p[0])]
[torch.cov(torch.polar(x.exp(), y)), torch.cov(torch.polar(x.exp(), y), fweights=n.repeat(2)[:4], aweights=p[0]), torch.polar(x.exp(), y).corrcoef()]
[torch.sigmoid(torch.polar(x.exp(), y)), torch.nn.functional.silu(torch.polar(x.exp(), y).detach()), torch.polar(x.exp(), y).sigmoid().real]
[x[0, 0].nonzero(), m.new_zeros(()).nonzero(), jit(lambda v: (v.nonzero(), (v * 0).nonzero()))(x[0, 0].detach())]
[m.sign(), m.sgn(), torch.sign(m), torch.tensor([float("nan"), -2.0]).sgn()]
[torch.addr(m[:3, :3], m[0, :3], m[1, :3]), torch.addr(m[:, :3], m[0, :3], m[1, :3], beta=0), torch.addr(m[:, :3], m[0, :3], m[2, :3], alpha=0)]
torch.histogramdd(t.detach(), [2, 3, 2], range=[-1.0, 1.0, -1.0, 2.0, -2.0, 1.0], weight=t[..., 0].abs().detach())
torch.i0(x)
torch.igamma(p, p + 0.5)
torch.igammac(p, p + 0.5)
torch.polygamma(1, p)
torch.matrix_exp(sq)
torch.qr(sq)[1].abs()
torch.svd(sq)[1]
torch.pinverse(sq)
torch.orgqr(sq, u1[:3])
torch.ormqr(sq, u1[:3], x)
torch.svd_lowrank(x, 3)[1]
torch.pca_lowrank(x, 2)[1]
torch.masked.sum(x, mask=m)
torch.masked.sum(x, 1, keepdim=True, mask=m)
torch.masked.sum(i, 0)
torch.masked.prod(x, (0, 1), mask=m)
torch.masked.prod(x, 1, mask=m)
torch.masked.amax(x, 1, mask=m)
torch.masked.amin(x, 0, keepdim=True, mask=m)
torch.masked.amax(i, 0, mask=i > 0)
torch.masked.argmax(x, 1, mask=part)
torch.masked.argmin(x, mask=part)
torch.masked.mean(x, 1, mask=part)
torch.masked.mean(x, dtype=torch.float32, mask=m)
torch.masked.var(x, 1, mask=part)
torch.masked.var(x, 1, False, mask=part)
torch.masked.var(x)
torch.masked.std(x, (0, 1), correction=2, mask=part)
torch.masked.norm(x, 2.0, 1, mask=m)
torch.masked.norm(x, 1.0, mask=m)
torch.masked.norm(x, float('-inf'), 1, mask=m)
torch.masked.normalize(x, 2.0, 1, mask=m)
torch.masked.median(x, 1, mask=part)
torch.masked.softmax(x, 1, mask=part)
torch.masked.log_softmax(x, 1, mask=part)
torch.masked.softmin(x, 0, mask=part)
torch.masked.cumsum(x, 1, mask=m)
torch.masked.cumprod(x, 1, mask=m)
torch.masked.logsumexp(x, 1, mask=m)
torch.masked.logaddexp(x, y, input_mask=m, other_mask=part)
""".strip().split("\n")


JIT = {torch: lambda f: f, fx.torch: fx.jit}


def evaluated(line, library):
    """What the line gives, flat, and the gradients of its weighed sum."""
    leaves = {n: library.from_numpy(a.copy()).requires_grad_() for n, a in FLOATING.items()}
    names = {n: library.from_numpy(a.copy()) for n, a in OTHERS.items()} | leaves
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = flat(eval(line, {"torch": library, "jit": JIT[library], **names}))
    loss = 0
    for result in results:
        if getattr(result, "requires_grad", False):
            weights = np.cos(np.arange(result.numel())).reshape(tuple(result.shape))
            known = library.where(library.isfinite(result), result, library.zeros_like(result))
            loss = loss + (known * library.from_numpy(weights)).abs().sum()
    if not isinstance(loss, int):
        loss.backward()
    gradients = {n: leaf.grad for n, leaf in leaves.items()}
    return [plain(r) for r in results], {n: plain(g) for n, g in gradients.items()}


def flat(result):
    if isinstance(result, tuple | list) and type(result).__name__ != "Size":
        return [x for part in result for x in flat(part)]
    return [result]


def plain(x):
    if isinstance(x, torch.Tensor | fx.Tensor):
        return x.detach().resolve_conj().numpy()
    return str(x).removeprefix("torch.") if "dtype" in type(x).__name__.lower() else x


@pytest.mark.parametrize("line", LINES)
def test_same_as_torch(line):
    got, gradients = evaluated(line, fx.torch)
    expected, slopes = evaluated(line, torch)
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        if not isinstance(b, np.ndarray):
            assert (a, type(a).__name__) == (b, type(b).__name__)
            continue
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5 if b.dtype == "float32" else 1e-9, atol=1e-12)
    for name, slope in slopes.items():
        got, wanted = (
            np.zeros(FLOATING[name].shape) if g is None else g for g in (gradients[name], slope)
        )
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-10, err_msg=name)


def test_every_name_has_a_line():
    text = "\n".join([*LINES, *SETTINGS])
    names = [n for row in fx.torch._OF_ROOMS.values() for n in row.split()]
    for name in {*names} - {"to_dlpack"}:
        assert re.search(rf"torch\.{name}\(", text), name
    for name in fx.torch.masked.__all__:
        assert f"torch.masked.{name}(" in text, name


SETTINGS = """
torch.set_deterministic_debug_mode('warn'); got = torch.get_deterministic_debug_mode(), torch.is_deterministic_algorithms_warn_only_enabled(); torch.set_deterministic_debug_mode(0)
torch.use_deterministic_algorithms(True); got = torch.get_deterministic_debug_mode(); torch.use_deterministic_algorithms(False)
torch.set_autocast_cache_enabled(False); got = torch.is_autocast_cache_enabled(); torch.set_autocast_cache_enabled(True)
torch.set_autocast_cpu_dtype(torch.float16); got = str(torch.get_autocast_cpu_dtype()); torch.set_autocast_cpu_dtype(torch.bfloat16)
torch.set_autocast_cpu_enabled(True); got = torch.is_autocast_cpu_enabled(); torch.set_autocast_cpu_enabled(False)
torch.set_autocast_gpu_dtype(torch.float16); got = str(torch.get_autocast_gpu_dtype())
""".strip().split("\n")


@pytest.mark.parametrize("line", SETTINGS)
def test_settings_are_remembered_as_torch_does(line):
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in (fx.torch, torch):
            space = {"torch": library}
            exec(line, space)
            found.append(space["got"])
    fx.torch.use_deterministic_algorithms(True)
    assert found[0] == found[1]


def test_a_copy_is_no_view():
    a = fx.torch.ones(2, 3)
    copies = [
        fx.torch.alias_copy(a), fx.torch.t_copy(a), fx.torch.view_copy(a, (6,)),
        fx.torch.slice_copy(a, 1), *fx.torch.unbind_copy(a),
    ]  # fmt: skip
    assert not any(np.shares_memory(c.numpy(), a.numpy()) for c in copies)
    a[0, 0] = 5.0
    assert all(float(c.max()) == 1.0 for c in copies)


def test_a_capsule_opens_in_torch():
    x = fx.torch.arange(6.0).reshape(2, 3)
    assert torch.from_dlpack(fx.torch.to_dlpack(x)).tolist() == x.tolist()


def test_gradient_of_a_strided_scatter():
    """To what was not replaced; PyTorch 2.13 gives that of the others."""
    x = fx.torch.zeros(2, 3, requires_grad=True)
    x.as_strided_scatter(fx.torch.ones(2), (2,), (3,), 1).sum().backward()
    assert x.grad.tolist() == [[1, 0, 1], [1, 0, 1]]


GROUPED = {
    "rows": ((16, 8), (3, 8, 16)), "columns": ((3, 8, 16), (16, 16)), "sums": ((8, 16), (16, 8)),
    "batches": ((3, 8, 16), (3, 16, 8)),
}  # fmt: skip


@pytest.mark.parametrize("kind", GROUPED)
def test_grouped_products(kind):
    found = []
    arrays = [rng.standard_normal(shape).astype("float32") for shape in GROUPED[kind]]
    for library in (fx.torch, torch):
        a, b = (library.from_numpy(x.copy()).requires_grad_() for x in arrays)
        ends = None if kind == "batches" else library.tensor([3, 3, 16], dtype=library.int32)
        out = library.nn.functional.grouped_mm(a, b, offs=ends)
        (out * out).sum().backward()
        found.append([out.detach().numpy(), a.grad.numpy(), b.grad.numpy()])
    for got, expected in zip(*found):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_dropout_zeroes_whole_features_and_scales_the_rest():
    fx.torch.manual_seed(0)
    out, kept = fx.torch.native_dropout(fx.torch.ones(1000), 0.25, True)
    assert bool(((out == 0) == ~kept).all()) and 0.7 < float(kept.float().mean()) < 0.8
    assert float(out.max()) == pytest.approx(1 / 0.75)
    x = fx.torch.feature_dropout(fx.torch.ones(20, 5, 3, 3), 0.5, True)
    assert bool((x == x[..., :1, :1]).all()) and {*x.unique().tolist()} == {0.0, 2.0}


REFUSED = {
    "cudnn_convolution": "vendor", "mkldnn_rnn_layer": "vendor", "quantize_per_tensor": "quantised",
    "sparse_coo_tensor": "sparse", "symeig": "removed", "parse_ir": "PyTorch's own",
    "from_file": "memmap", "batch_norm_stats": "devices",
}  # fmt: skip


def test_rooms_say_why_too():
    with pytest.raises(AttributeError, match="no quantised tensors"):
        fx.torch.nn.functional.scaled_mm
    with pytest.raises(AttributeError, match=r"no torch.nn.functional.nothing: dir\("):
        fx.torch.nn.functional.nothing
    with pytest.raises(AttributeError, match=r"numpy.linalg.nothing"):
        fx.torch.linalg.nothing


@pytest.mark.parametrize(("name", "word"), REFUSED.items())
def test_what_is_absent_says_why(name, word):
    with pytest.raises(AttributeError, match=word):
        getattr(fx.torch, name)
    assert _absent.reason(name) is not None


BAD = {
    "torch.kl_div(x, x, 3)": (ValueError, "reduction is one of 0"),
    "torch.lstm(x[None], (x, x), (x,), True, 1, 0.0, False, False, False)": (ValueError, "4 weights"),
    "torch.gru_cell(x, x, x, x, x[0])": (ValueError, "both biases"),
    "torch.segment_reduce(x, 'sum', lengths=torch.tensor([1, 1]))": (ValueError, "add up"),
    "torch.segment_reduce(x, 'mode', lengths=torch.tensor([3]))": (ValueError, "reduce is one of"),
    "torch.segment_reduce(x, 'sum', axis=1)": (ValueError, "axis must be 0"),
    "torch.segment_reduce(x, 'sum')": (ValueError, "give lengths"),
    "torch.nonzero_static(x, size=-1)": (ValueError, "negative"),
    "torch.as_strided_scatter(x, x, (2, 2), (1, 1))": (ValueError, "src has shape"),
    "torch.empty_permuted((2, 3), (0, 0))": (ValueError, "order the axes"),
    "torch.binomial(torch.ones(2), torch.full((2,), 1.5))": (ValueError, "probs"),
    "torch.sym_constrain_range(3, min=4)": (ValueError, "does not lie"),
    "torch.sym_ite(True, 1, 2.0)": (TypeError, "one type"),
    "torch.feature_dropout(x[0], 0.5, True)": (ValueError, "batch, channels"),
    "torch.set_deterministic_debug_mode(7)": (RuntimeError, "debug_mode"),
    "torch.lu(x, pivot=False)": (RuntimeError, "pivoting"),
    "torch.masked.var(x, 1, True, correction=1)": (RuntimeError, "not both"),
    "torch.nn.functional.grouped_mm(x, x)": (ValueError, "without offs"),
    "torch.nn.functional.grouped_mm(x, x, offs=torch.tensor([3]))": (TypeError, "int32"),
    "torch.nn.functional.grouped_mm(x, x, offs=torch.tensor([4]).int())": (ValueError, "end by 3"),
    "torch.nn.functional.grouped_mm(x, x[None], offs=torch.tensor([1, 3]).int())": (ValueError, "one entry"),
    "torch.nn.functional.grouped_mm(x, x, bias=x)": (RuntimeError, "bias"),
    "torch.nn.functional.grouped_mm(x, x.double())": (TypeError, "one dtype"),
    "torch.masked.MaskedTensor": (AttributeError, "mask="),
}  # fmt: skip


@pytest.mark.parametrize(("line", "error"), BAD.items())
def test_bad_input_is_named(line, error):
    with pytest.raises(error[0], match=re.escape(error[1])):
        eval(line, {"torch": fx.torch, "x": fx.torch.ones(3, 3)})
