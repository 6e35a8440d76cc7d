"""Micro-batches: arguments cut into pieces along an axis each, and results put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx import tree
from fx.errors import ArgumentError, ShapeError
from fx.ops.shapes.joining import concat
from fx.ops.shapes.splitting import tensor_split
from fx.tensor import Tensor


class TensorChunkSpec:
    """A tensor that is cut into micro-batches along ``split_dim``.

    Example:
        >>> from fx.distributed.pipelining import TensorChunkSpec
        >>> TensorChunkSpec.from_tuple((0, 1))
        (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: Sequence[Any]) -> Any:
        """The same for each number of a tuple, which may hold others."""
        return tree.map(TensorChunkSpec, tuple(chunk_dims))

    @staticmethod
    def from_dict(chunk_dims: dict[str, Any]) -> Any:
        """The same for each number of a dict."""
        return tree.map(TensorChunkSpec, dict(chunk_dims))


class _Replicate:
    """What every micro-batch gets whole."""


class _CustomReducer:
    """A result of which ``reduce_fn`` makes one of all micro-batches, from ``init_value`` on."""

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn


def split_tensor(x: Any, dim: int, chunks: int, what: str) -> Sequence[Tensor]:
    """Equal pieces of a tensor.

    Raises:
        ShapeError: if it has no such axis, or one that does not divide.
    """
    if not -x.ndim <= dim < x.ndim:
        raise ShapeError(
            f"{what} {x.spec!r} has no axis {dim} to be cut along; say what is cut by "
            f"args_chunk_spec and kwargs_chunk_spec"
        )
    size = x.shape[dim]
    if size < chunks or size % chunks:
        raise ShapeError(
            f"{what} {x.spec!r} has {size} along axis {dim}, which does not divide into {chunks} "
            f"microbatches; drop the rest of the batch, or choose n_microbatches so that it does"
        )
    return tensor_split(x, chunks, dim)


def _pieces(x: Any, spec: Any, chunks: int, what: str) -> Sequence[Any]:
    """What each micro-batch gets of one argument."""
    if spec is None or isinstance(spec, _Replicate) or spec is _Replicate:
        return [x] * chunks
    if not isinstance(spec, TensorChunkSpec):
        raise ArgumentError(f"{what}: expected a TensorChunkSpec, got {type(spec).__name__}")
    if not isinstance(x, Tensor):
        raise ArgumentError(f"{what}: {type(x).__name__} cannot be cut by {spec!r}; only tensors")
    return split_tensor(x, spec.split_dim, chunks, what)


def _of_tensors(x: Any) -> Any:
    return TensorChunkSpec(0) if isinstance(x, Tensor) else _Replicate()


def _split(value: Any, specs: Any, chunks: int, what: str) -> list[Any]:
    leaves, structure = tree.flatten(value)
    if specs is None:
        given = [_of_tensors(x) for x in leaves]
    else:
        given = tree.leaves(specs)
        if len(given) != len(leaves):
            raise ArgumentError(
                f"{what}_chunk_spec has {len(given)} entries, and {what} has {len(leaves)} leaves; "
                f"give one for each, _Replicate() for what is not cut"
            )
    cut = [
        _pieces(x, s, chunks, f"{what}: leaf {i}") for i, (x, s) in enumerate(zip(leaves, given))
    ]
    return [tree.unflatten(structure, [pieces[m] for pieces in cut]) for m in range(chunks)]


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: Any = None,
    kwargs_chunk_spec: Any = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The arguments of each micro-batch.

    Args:
        args, kwargs: of the whole batch; tensors are cut along axis 0, all else is handed on.
        chunks: how many micro-batches.
        args_chunk_spec, kwargs_chunk_spec: a ``TensorChunkSpec`` for each leaf instead.

    Raises:
        ShapeError: if an axis does not divide.
        ArgumentError: if the specs do not fit the arguments.

    Example:
        >>> import fx
        >>> from fx.distributed.pipelining import split_args_kwargs_into_chunks
        >>> split_args_kwargs_into_chunks((fx.arange(4), True), None, 2)[0]
        [(tensor([0, 1]), True), (tensor([2, 3]), True)]
    """
    return (
        _split(tuple(args), args_chunk_spec, chunks, "args"),
        _split(dict(kwargs or {}), kwargs_chunk_spec, chunks, "kwargs"),
    )


def merge_chunks(chunks: Sequence[Any], chunk_spec: Any = None) -> Any:
    """One result of those of all micro-batches, side by side along axis 0 or as the specs say.

    Raises:
        ArgumentError: if the results have other structures, or what is not cut differs.
    """
    leaves, structure = tree.flatten(chunks[0])
    specs = [_of_tensors(x) for x in leaves] if chunk_spec is None else tree.leaves(chunk_spec)
    rows = [tree.leaves(chunk) for chunk in chunks]
    if any(len(row) != len(specs) for row in rows):
        raise ArgumentError(
            f"output_merge_spec has {len(specs)} entries, and a microbatch gave "
            f"{max(len(row) for row in rows)} results"
        )
    return tree.unflatten(structure, [_merged(list(c), s) for c, s in zip(zip(*rows), specs)])


def _merged(column: list[Any], spec: Any) -> Any:
    if isinstance(spec, TensorChunkSpec):
        if not column[0].ndim:
            raise ShapeError(
                "a result of the last stage is a scalar, which has no axis to be merged along; say "
                "what becomes of it by output_merge_spec, or write return_outputs=False"
            )
        return concat(column, axis=spec.split_dim)
    if isinstance(spec, _CustomReducer):
        out = spec.init_value
        for x in column:
            out = spec.reduce_fn(out, x)
        return out
    if any(x is not column[0] and not bool(x == column[0]) for x in column[1:]):
        raise ArgumentError("a result that is not merged differs between microbatches")
    return column[0]
