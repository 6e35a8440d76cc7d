"""Attention of several heads as a layer."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn import init
from fx.nn.attention import SDPBackend as SDPBackend
from fx.nn.attention import sdpa_kernel as sdpa_kernel
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.nn.functional.multi_head import additive
from fx.nn.layers.linear import Linear
from fx.ops.operands import argument
from fx.tensor import Tensor


class NonDynamicallyQuantizableLinear(Linear):
    """``Linear`` under the name that PyTorch prints for the output of attention."""


class MultiheadAttention(Module):
    """Attention of queries over keys and values, in several heads side by side.

    Args:
        embed_dim: the features of query and output.
        num_heads: which divides ``embed_dim``.
        dropout: the probability with which attention weights are dropped in training.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned source is added.
        add_zero_attn: whether a source of zeros is added.
        kdim, vdim: the features of key and value; ``embed_dim`` unless told.
        batch_first: whether inputs and output are (batch, length, features) instead of
            (length, batch, features).
        device, dtype: of the parameters.

    Attributes:
        in_proj_weight: (3 * embed_dim, embed_dim); or ``q_proj_weight``, ``k_proj_weight`` and
            ``v_proj_weight`` where the features differ.
        in_proj_bias: (3 * embed_dim,).
        out_proj: a ``Linear``.
        bias_k, bias_v: (1, 1, embed_dim), or None.

    Raises:
        ValueError: if sizes are not positive, or ``num_heads`` does not divide ``embed_dim``.

    Source: Vaswani et al., "Attention is all you need", 2017.

    Example:
        >>> import fx
        >>> layer = fx.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = fx.ones((3, 5, 8))
        >>> y, weights = layer(x, x, x)
        >>> y.shape, weights.shape
        ((3, 5, 8), (3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: embed_dim must be divisible by num_heads and both positive, "
                f"got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        made = {"device": device, "dtype": dtype}
        features = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter((3 * embed_dim, embed_dim), **made)
            for which in features:
                self.register_parameter(f"{which}_proj_weight", None)
        else:
            for which, size in features.items():
                setattr(self, f"{which}_proj_weight", parameter((embed_dim, size), **made))
            self.register_parameter("in_proj_weight", None)
        in_bias = parameter((3 * embed_dim,), **made) if bias else None
        self.register_parameter("in_proj_bias", in_bias)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        for name in ("bias_k", "bias_v"):
            extra = parameter((1, 1, embed_dim), **made) if add_bias_kv else None
            self.register_parameter(name, extra)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the attention weights if they are needed.

        Args:
            query: (targets, batch, embed_dim), (batch, targets, embed_dim) if ``batch_first``, or
                (targets, embed_dim) of one sequence.
            key: (sources, batch, kdim), and so on.
            value: (sources, batch, vdim), and so on.
            key_padding_mask: (batch, sources): bool, True where a source is ignored, or floating,
                added to the scores.
            need_weights: whether the weights are returned; faster without.
            attn_mask: (targets, sources) or (batch * heads, targets, sources), likewise.
            average_attn_weights: whether the weights are averaged over heads.
            is_causal: says that ``attn_mask`` is the causal one.

        Raises:
            ShapeError, DTypeError: if shapes or the dtype of a mask do not fit.
        """
        q = argument("MultiheadAttention", query)
        k = q if key is query else argument("MultiheadAttention", key)
        v = k if value is key else argument("MultiheadAttention", value)
        swap = self.batch_first and q.ndim == 3
        if swap:
            shared = (k is q, v is k)
            q = q.transpose(0, 1)
            k = q if shared[0] else k.transpose(0, 1)
            v = k if shared[1] else v.transpose(0, 1)
        y, weights = F.multi_head_attention_forward(
            q,
            k,
            v,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (y.transpose(0, 1) if swap else y), weights

    def merge_masks(
        self, attn_mask: Any, key_padding_mask: Any, query: Any
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one that is added to scores, and its kind.

        Args:
            attn_mask: (length, length) or (batch * heads, length, length), or None.
            key_padding_mask: (batch, length), or None.
            query: (batch, length, embed_dim).

        Returns:
            None and None; a mask (batch, length) and 1; or (batch, heads, length, length) and 2.
        """
        q = argument("MultiheadAttention", query)
        padding = additive(key_padding_mask, "key_padding_mask", q.dtype)
        mask = additive(attn_mask, "attn_mask", q.dtype)
        if mask is None:
            return padding, None if padding is None else 1
        batch, length = q.shape[0], q.shape[1]
        lead = (batch, -1) if mask.ndim == 3 else (1, 1)
        mask = mask.reshape((*lead, length, length))
        mask = mask.expand(batch, self.num_heads, length, length)
        if padding is not None:
            mask = mask + padding.reshape((batch, 1, 1, length))
        return mask, 2
