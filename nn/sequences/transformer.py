"""Transformers: stacks of encoder and decoder layers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from fx.config import default_dtype
from fx.devices import as_device
from fx.dtypes import as_dtype
from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.containers import ModuleList
from fx.nn.base.module import Module
from fx.nn.functional.multi_head import additive
from fx.nn.layers.normalization import LayerNorm
from fx.nn.sequences.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer
from fx.ops.making.creation import full
from fx.ops.making.patterns import triu
from fx.ops.operands import argument
from fx.tensor import Tensor


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        encoder_layer: the layer of which each is a copy.
        num_layers: how many.
        norm: applied at the end, or None.
        enable_nested_tensor, mask_check: accepted for PyTorch's sake: padding is masked.

    Example:
        >>> import fx
        >>> layer = fx.nn.TransformerEncoderLayer(8, 2, 16)
        >>> fx.nn.TransformerEncoder(layer, num_layers=2)(fx.ones((5, 3, 8))).shape
        (5, 3, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """(length, batch, d_model) to the same.

        Args:
            src: as above, or with the batch first, as the layers take it.
            mask: (length, length) or (batch * heads, length, length): bool, True where attention is
                not allowed, or floating, added to the scores.
            src_key_padding_mask: (batch, length), likewise.
            is_causal: says that ``mask`` is the causal one.
        """
        dtype = argument("TransformerEncoder", src).dtype
        padding = additive(src_key_padding_mask, "src_key_padding_mask", dtype, mask, "mask")
        mask = additive(mask, "mask", dtype)
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=padding, is_causal=is_causal is True)
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Args:
        decoder_layer: the layer of which each is a copy.
        num_layers: how many.
        norm: applied at the end, or None.

    Example:
        >>> import fx
        >>> layer = fx.nn.TransformerDecoderLayer(8, 2, 16)
        >>> decoder = fx.nn.TransformerDecoder(layer, num_layers=2)
        >>> decoder(fx.ones((5, 3, 8)), fx.ones((7, 3, 8))).shape
        (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(targets, batch, d_model) and (sources, batch, d_model) to the first's shape.

        Arguments as of ``TransformerDecoderLayer``.
        """
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal is True,
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]


class Transformer(Module):
    """An encoder of one sequence and a decoder of another that looks at it.

    Args:
        d_model: the features.
        nhead: the heads of attention.
        num_encoder_layers, num_decoder_layers: how many of each.
        dim_feedforward, dropout, activation: as of ``TransformerEncoderLayer``.
        custom_encoder, custom_decoder: modules in place of the stacks.
        layer_norm_eps, batch_first, norm_first, bias: as of ``TransformerEncoderLayer``.
        device, dtype: of the parameters.

    Source: Vaswani et al., "Attention is all you need", 2017.

    Example:
        >>> import fx
        >>> model = fx.nn.Transformer(8, 2, 1, 1, 16)
        >>> model(fx.ones((7, 3, 8)), fx.ones((5, 3, 8))).shape
        (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip
        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*options)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask (sz, sz) that is added to scores: -inf above the diagonal, else 0.

        Example:
            >>> import fx
            >>> fx.nn.Transformer.generate_square_subsequent_mask(2)
            tensor([[0., -inf],
                    [0., 0.]])
        """
        dtype = default_dtype() if dtype is None else as_dtype(dtype)
        where = as_device(device)
        return triu(full((sz, sz), -math.inf, dtype=dtype, device=where), k=1)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(sources, batch, d_model) and (targets, batch, d_model) to the second's shape.

        Args:
            src, tgt: as above, with the batch first if ``batch_first``, or without it.
            src_mask, tgt_mask, memory_mask: (targets, sources) of each attention.
            src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask: (batch, sources).
            src_is_causal, tgt_is_causal, memory_is_causal: say that a mask is the causal one.

        Raises:
            ShapeError: if batches or features differ.
        """
        x, y = argument("Transformer", src), argument("Transformer", tgt)
        lead = 0 if self.batch_first else 1
        same = x.ndim == y.ndim in (2, 3) and (x.ndim != 3 or x.shape[lead] == y.shape[lead])
        if not same or x.shape[-1] != self.d_model or y.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer: src and tgt must have equal batch sizes and {self.d_model} "
                f"features, got {x.shape} and {y.shape} with batch_first={self.batch_first}"
            )
        memory = self.encoder(
            x, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(  # type: ignore[no-any-return]
            y, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])
