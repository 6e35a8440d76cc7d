"""The rows of the coverage page: for each list of names, which fx has, and why not the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from fx.torch import _absent

NAMES = Path(__file__).with_name("names.txt")

ABSENT = object()

# packages of torch.distributed: their classes and constants count too, those of all modules below
RANKS_ROOMS = """
    _composable algorithms autograd checkpoint elastic fsdp launcher nn optim pipelining rpc tensor
"""

# whose names each list has, and where in fx they are looked for; ``{0}`` is the room of a name
LISTS: dict[str, tuple[str, ...]] = {
    "Array API 2024.12": ("fx",),
    "Array API 2024.12: linalg": ("fx.linalg",),
    "Array API 2024.12: fft": ("fx.fft",),
    "torch": ("fx.torch",),
    "torch.Tensor": ("fx.torch.Tensor",),
    "torch.nn.functional": ("fx.torch.nn.functional",),
    "torch.linalg": ("fx.torch.linalg",),
    "torch.fft": ("fx.torch.fft",),
    "torch.special": ("fx.torch.special",),
    "torch.masked": ("fx.torch.masked",),
    **{
        room: (f"fx.{room}.{{0}}",)
        for room in (
            "torch.distributed",
            *(f"torch.distributed.{each}" for each in RANKS_ROOMS.split()),
        )
    },
    "jax": ("fx",),
    "jax.nn": ("fx.nn",),
    "jax.random": ("fx.random",),
    "jax.tree": ("fx.tree",),
    "jax.tree_util": ("fx.tree_util",),
    "jax.flatten_util": ("fx.flatten_util",),
    "jax.ops": ("fx.ops",),
    "jax.numpy": ("fx",),
    "jax.lax": ("fx.lax",),
    "jax.scipy": ("fx.{0}", "fx"),
    "scipy.special": ("fx.special",),
    "scipy.linalg": ("fx.linalg",),
}
ASIDE = {
    "vendor": "calls of one vendor's library",
    "quantised": "quantised tensors",
    "sparse": "sparse tensors",
    "removed": "removed by PyTorch itself",
    "device": "devices that fx has not",
    "internal": "PyTorch's or JAX's own machinery",
}
_OF_JAX = (
    (r"_p$|^(create_token|after_all|dce_sink|stage|optimization_barrier|composite|pcast|pbroadcast)$"
     r"|^(shape_as_value|padtype_to_pads|conv_dimension_numbers|conv_general_permutations)$"
     r"|_shape_tuple$|^rng_bit_generator$", "internal", "an object of JAX's compiler"),
    (r"sharding|^(psend|precv|pshuffle|pswapaxes|psum_scatter|all_to_all|ragged_all_to_all)$",
     "device", "several devices"),
    (r"^(array_garbage_collection_guard|auto_pcast|allow_f16_reductions|check_tracer_leaks|closure_convert"
     r"|checking_leaks|debug_key_reuse|effects_barrier|enable_checks|enable_custom_prng|empty_ref"
     r"|ensure_compile_time_eval|explain_cache_misses|free_ref|freeze|jax2tf_.*|legacy_prng_key"
     r"|live_arrays|log_compiles|make_user_context|named_call|new_ref|no_execution|no_tracing|ref"
     r"|numpy_(dtype|rank)_promotion|print_environment_info|remove_size_one_mesh_axis_from_type"
     r"|softmax_custom_jvp|thread_guard|threefry_partitionable|transfer_guard.*|copy_to_host_async"
     r"|default_prng_impl|default_matmul_precision|debug_infs|fwd_and_bwd|random_gamma_p|key_impl"
     r"|get_scaled_dot_general_config|default_device|default_backend|clear_caches|enable_x64)$",
     "internal", "JAX's own"),
    (r"^(pmap|smap|reshard|set_mesh|make_mesh|make_array_from_.*|make_array_.*|host_.*|process_.*"
     r"|local_devices|typeof|scaled_dot_general|scaled_matmul)$", "device", "several devices"),
    (r"^(platform_dependent|random_gamma_grad|get_printoptions|printoptions)$",
     "internal", "JAX's own"),
)  # fmt: skip


class Row(NamedTuple):
    """One list: its names that are there, those aside by kind, those missing, with a word why."""

    title: str
    there: list[str]
    aside: dict[str, list[str]]
    missing: dict[str, str]

    @property
    def share(self) -> float:
        """How many of the names that are not aside are there, of 1."""
        return len(self.there) / max(1, len(self.there) + len(self.missing))


def read_lists() -> dict[str, list[str]]:
    """The lists as they stand in ``names.txt``."""
    parts = re.split(r"^\[(.+)\]$", NAMES.read_text(), flags=re.M)[1:]
    return {title: names.split() for title, names in zip(parts[::2], parts[1::2])}


def place_of(places: tuple[str, ...], name: str) -> Any:
    """What fx has of a name, in the first of some places that is there, or ``ABSENT``.

    What refuses when it is called is not there.
    """
    *rooms, last = name.split(".")
    inner = ".".join(rooms)
    found = next(filter(None, (_room(place.format(inner).rstrip(".")) for place in places)), None)
    found = getattr(found, last, ABSENT)
    return ABSENT if isinstance(found, _absent.Absent) else found


def _room(place: str) -> Any:
    """A module, or a class of one; None if there is none of that name."""
    home, _, last = place.rpartition(".")
    try:
        return getattr(import_module(home), last) if last == "Tensor" else import_module(place)
    except ImportError:
        return None


def _why_of_torch(title: str, name: str) -> tuple[str | None, str]:
    room = title.partition(".")[2]
    within = room if room.startswith("distributed") else ""
    return _absent.kind_of(name, within) or (None, "not yet")


def _why_of_jax(title: str, name: str) -> tuple[str | None, str]:
    for pattern, kind, word in _OF_JAX:
        if re.search(pattern, name):
            return kind, word
    return None, "not yet"


def _why_of_scipy(title: str, name: str) -> tuple[str | None, str]:
    if name in ("test", "geterr", "seterr", "find_best_blas_type") or name.startswith("get_"):
        return "internal", "SciPy's own"
    return None, "not yet"


_WHY: dict[str, Callable[[str, str], tuple[str | None, str]]] = {
    "torch": _why_of_torch, "jax": _why_of_jax, "scipy": _why_of_scipy,
}  # fmt: skip


def row(title: str, names: list[str]) -> Row:
    """The row of one list."""
    out = Row(title, [], {}, {})
    why = _WHY.get(title.partition(".")[0], lambda title, name: (None, "not yet"))
    for name in names:
        if place_of(LISTS[title], name) is not ABSENT:
            out.there.append(name)
            continue
        kind, word = why(title, name)
        if kind is None:
            out.missing[name] = word
        else:
            out.aside.setdefault(kind, []).append(name)
    return out


def rows() -> list[Row]:
    """All rows, in the order of ``LISTS``."""
    return [row(title, names) for title, names in read_lists().items()]
