"""``fx.save`` and ``fx.load``: one door for every kind of file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

from fx.config import modes
from fx.errors import FileFormatError, StagingError
from fx.io import arrays, legacy, pt, safetensors
from fx.io.archive import ArchiveReader
from fx.io.machine import Theirs
from fx.io.storages import placement

PREFIXES = ("module.", "_orig_mod.")  # of DataParallel and of torch.compile


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write a value to a file that ``fx.load`` and ``torch.load`` read.

    Tensors are written from the memory they lie in, once each; those that share memory share it
    again when they are loaded. The format follows the suffix: ``.safetensors``, ``.npz`` and
    ``.npy`` for (dicts of) tensors, PyTorch's zip format for all else. A whole Module or
    optimizer can be saved too, and is loaded by fx alone, with ``weights_only=False``.

    Args:
        obj: tensors in containers, or anything that can be pickled.
        f: a path, or a file open for writing in binary mode.
        pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record:
            accepted for PyTorch's sake; the format is always that of the suffix.

    Raises:
        AttributeError: if ``f`` is neither.
        StagingError: inside a jitted function.

    Source: ``torch.save``.

    Example:
        >>> import fx, io
        >>> model = fx.nn.Linear(3, 2)
        >>> file = io.BytesIO()
        >>> fx.save({"model": model.state_dict(), "epoch": 7}, file)
        >>> fx.load(file)["epoch"]
        7
    """
    if modes.stage is not None:
        raise StagingError("save: values are not known while a function is staged; save outside it")
    is_path = isinstance(f, str | os.PathLike)
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            "save: expected 'f' to be a path or a file-like object with a 'write' attribute, got "
            f"{type(f).__name__}"
        )
    suffix = os.path.splitext(os.fspath(f))[1].lower() if is_path else ""
    if suffix == ".safetensors":
        safetensors.save_file(obj, f)
    elif not is_path:
        pt.write(obj, f)
    else:
        writer = {".npz": arrays.write_npz, ".npy": arrays.write_npy}.get(suffix)
        with open(f, "wb") as file:
            if writer is None:
                pt.write(obj, file, pt.folder_for(f))
            else:
                writer(obj, file)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    strip_prefix: bool | str | tuple[str, ...] | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a file of ``fx.save``, ``torch.save``, safetensors or NumPy.

    The kind is told from the contents: PyTorch's zip format, its format before 1.6, safetensors,
    ``.npz``, ``.npy``. PyTorch itself is not needed.

    Args:
        f: a path, or a seekable file open for reading in binary mode.
        map_location: where tensors are to live: a device, a dict of device names, or a function of
            a storage and the name of its device. None is where they were.
        pickle_module: accepted for PyTorch's sake; must be None.
        weights_only: True makes tensors and plain containers only and refuses all else by name.
            False loads any object and **lets the file run any code**: only for files you trust.
        mmap: True maps the file instead of reading it: pages are read when they are used.
        strip_prefix: True takes ``module.`` and ``_orig_mod.`` off the keys of state dicts, where
            all keys of one have it; or a prefix, or several.
        pickle_load_args: accepted for PyTorch's sake.

    Returns:
        what was saved; a dict of tensors for safetensors and ``.npz``.

    Raises:
        FileFormatError: if the file is damaged or hostile, or holds what is not allowed.
        DeviceError: if it has tensors on a device that is not here.

    Source: ``torch.load``.

    Example:
        >>> import fx, io
        >>> file = io.BytesIO()
        >>> fx.save({"module.w": fx.ones(2)}, file)
        >>> fx.load(file, strip_prefix=True)
        {'w': tensor([1., 1.])}
    """
    weights_only = weights_only is None or bool(weights_only)
    if pickle_module is not None:
        raise ValueError(
            "load: fx reads pickles itself; leave out pickle_module, and write weights_only=False "
            "to load any object from a file you trust"
        )
    try:
        with _opened(f) as (file, what):
            value = _load(file, what, map_location, weights_only, bool(mmap))
    except Theirs as error:
        raise error.error from None
    if strip_prefix:
        prefixes = PREFIXES if strip_prefix is True else strip_prefix
        value = stripped(value, (prefixes,) if isinstance(prefixes, str) else prefixes)
    return value


def _load(file: Any, what: str, map_location: Any, weights_only: bool, mmap: bool) -> Any:
    begin = file.tell()
    head = file.read(512)
    file.seek(begin)
    if head[:4] == b"PK\3\4" or head[:4] == b"PK\5\6":
        try:
            archive = ArchiveReader(file, what)
            if archive.entries and all(name.endswith(".npy") for name in archive.entries):
                return arrays.read_npz(archive, placement(map_location))
            return pt.read(file, archive, map_location, weights_only, mmap)
        finally:
            file.seek(0, os.SEEK_END)
    if mmap:
        raise ValueError(
            f"load: {what} is not in the zip format, and no other can be mapped; leave mmap=False"
        )
    if head[:6] == arrays.MAGIC:
        return arrays.read_npy(file, what, placement(map_location))
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return safetensors.read(file, what, placement(map_location))
    if head[257:262] == b"ustar":
        raise FileFormatError(
            f"{what} is in the tar format of PyTorch before 0.1.10; open it with "
            f"torch.load(f, weights_only=False), and save it again"
        )
    if head[:1] == b"\x80":
        return legacy.read(file, what, map_location, weights_only)
    raise FileFormatError(
        f"{what} is no file that fx knows: it is "
        + ("empty" if not head else f"neither a zip archive, a pickle, safetensors nor .npy and "
           f"begins with {head[:8]!r}")
    )  # fmt: skip


@contextmanager
def _opened(f: Any) -> Any:
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            yield file, os.fspath(f)
        return
    if not hasattr(f, "read"):
        raise AttributeError(
            f"load: expected 'f' to be a path or a file-like object with a 'read' attribute, got "
            f"{type(f).__name__}"
        )
    try:
        at = f.tell()
        f.seek(at)
    except (AttributeError, OSError) as error:
        raise AttributeError(
            f"load: {error}. You can only load from a file that is seekable; read it into "
            f"io.BytesIO(f.read()) and load from that"
        ) from None
    if at and not f.read(1):  # written a moment ago: from its beginning, as users expect
        at = 0
    f.seek(at)
    yield f, f"<{type(f).__name__}>"


# prefixes ---------------------------------------------------------------------------------------


def strip_prefix(state_dict: Any, prefix: str | tuple[str, ...] = PREFIXES) -> Any:
    """The state dict without a prefix that all its keys have, as wrapped models put before them.

    Args:
        state_dict: values by path; ``_metadata`` goes along.
        prefix: what to take off, or several, each as often as all keys have it.

    Returns:
        another dict of the same type; the same one if there is nothing to take off.

    Example:
        >>> import fx
        >>> fx.io.strip_prefix({"module.fc.weight": 1, "module.fc.bias": 2})
        {'fc.weight': 1, 'fc.bias': 2}
    """
    prefixes = (prefix,) if isinstance(prefix, str) else tuple(prefix)
    out = state_dict
    while len(out):
        found = next((p for p in prefixes if p and all(_starts(k, p) for k in out)), None)
        if found is None:
            break
        renamed = type(out)()
        renamed.update({key[len(found) :]: value for key, value in out.items()})
        metadata = getattr(out, "_metadata", None)
        if isinstance(metadata, dict):
            kept = {_without(key, found): value for key, value in metadata.items()}
            renamed._metadata = type(metadata)(kept)
        out = renamed
    return out


def _starts(key: Any, prefix: str) -> bool:
    return isinstance(key, str) and key.startswith(prefix) and len(key) > len(prefix)


def _without(key: str, prefix: str) -> str:
    if key == prefix[:-1]:
        return ""
    return key[len(prefix) :] if key.startswith(prefix) else key


def stripped(value: Any, prefixes: tuple[str, ...]) -> Any:
    """``value`` with ``strip_prefix`` done to each dict in it."""
    if isinstance(value, Mapping):
        value = strip_prefix(value, prefixes)
        for key, inner in value.items():
            if isinstance(inner, Mapping):
                value[key] = stripped(inner, prefixes)
    return value
