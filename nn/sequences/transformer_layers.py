"""The layers of transformers: attention and a feed-forward network, with residual connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.nn.layers.dropout import Dropout
from fx.nn.layers.linear import Linear
from fx.nn.layers.normalization import LayerNorm
from fx.nn.sequences.attention import MultiheadAttention
from fx.tensor import Tensor

_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}


class _Layer(Module):
    """What both kinds share: attention over itself, and the feed-forward network."""

    crossing: ClassVar[bool] = False  # whether there is attention over another sequence

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        heads = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **made}
        self.self_attn = MultiheadAttention(d_model, nhead, **heads)
        if self.crossing:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **heads)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        places = ("1", "2", "3") if self.crossing else ("1", "2")
        for i in places:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made))
        for i in places:
            setattr(self, f"dropout{i}", Dropout(dropout))
        if isinstance(activation, str):
            if activation not in _ACTIVATIONS:
                raise RuntimeError(f"activation should be relu/gelu, not {activation}")
            activation = _ACTIVATIONS[activation]
        self.activation = activation

    def _residual(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """``x`` and a block of it, normalised before or after."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _self_attention(self, x: Any, mask: Any, padding: Any, is_causal: bool) -> Tensor:
        y, _ = self.self_attn(
            x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal
        )
        return self.dropout1(y)  # type: ignore[no-any-return]

    def _feed_forward(self, x: Any) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence over itself, then a feed-forward network.

    Args:
        d_model: the features.
        nhead: the heads of attention.
        dim_feedforward: the features between the two linear layers.
        dropout: the probability in training.
        activation: ``"relu"``, ``"gelu"``, or a function of a tensor.
        layer_norm_eps: of the layer norms.
        batch_first: whether sequences are (batch, length, d_model) instead of
            (length, batch, d_model).
        norm_first: whether the norms come before the blocks instead of after the residuals.
        bias: whether linear layers and norms have biases.
        device, dtype: of the parameters.

    Raises:
        RuntimeError: for another name of an activation.

    Source: Vaswani et al., "Attention is all you need", 2017; ``norm_first``: Xiong et al., 2020.

    Example:
        >>> import fx
        >>> layer = fx.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> layer(fx.ones((3, 5, 8))).shape
        (3, 5, 8)
    """

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(length, batch, d_model) to the same; masks as of ``MultiheadAttention``."""
        x = self._residual(
            src,
            self.norm1,
            lambda x: self._self_attention(x, src_mask, src_key_padding_mask, is_causal),
        )
        return self._residual(x, self.norm2, self._second)

    def _second(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence over itself and over another, then a feed-forward network.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype: as of ``TransformerEncoderLayer``.

    Raises:
        RuntimeError: for another name of an activation.

    Source: Vaswani et al., "Attention is all you need", 2017.

    Example:
        >>> import fx
        >>> layer = fx.nn.TransformerDecoderLayer(8, 2, 16)
        >>> layer(fx.ones((5, 3, 8)), fx.ones((7, 3, 8))).shape
        (5, 3, 8)
    """

    crossing = True

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(targets, batch, d_model) and (sources, batch, d_model) to the first's shape.

        Args:
            tgt, memory: as above, or with the batch first.
            tgt_mask, tgt_key_padding_mask, tgt_is_causal: of the attention over itself.
            memory_mask, memory_key_padding_mask, memory_is_causal: of that over ``memory``.
        """
        x = self._residual(
            tgt,
            self.norm1,
            lambda x: self._self_attention(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
        )

        def cross(x: Tensor) -> Tensor:
            y, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, need_weights=False,
                attn_mask=memory_mask, is_causal=memory_is_causal,
            )  # fmt: skip
            return self.dropout2(y)  # type: ignore[no-any-return]

        x = self._residual(x, self.norm2, cross)
        return self._residual(x, self.norm3, self._third)

    def _third(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))  # type: ignore[no-any-return]
