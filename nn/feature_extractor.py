"""Feature extraction: the outputs of chosen layers of a model, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from fx.errors import StateError
from fx.nn.base.capturing import capturing
from fx.nn.base.module import Module


class FeatureExtractor(Module):
    """A model that returns what chosen layers gave; ``nn.feature_extractor`` makes one."""

    def __init__(self, model: Module, layers: dict[str, str]) -> None:
        super().__init__()
        self.model = model
        self.layers = layers

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Call the model; the outputs of the layers by name."""
        wanted = {path: self.model.get_submodule(_parted(path)[0]) for path in self.layers}
        with capturing({id(m): m for m in wanted.values()}.values()) as outputs:
            self.model(*args, **kwargs)
        found = {}
        for path, name in self.layers.items():
            given, turn = outputs[id(wanted[path])], _parted(path)[1]
            if not -len(given) <= turn < len(given):
                raise StateError(
                    f"feature_extractor: layer {path!r} was called {len(given)} times by the "
                    f"forward of {type(self.model).__name__}, so it has no output to give"
                )
            found[name] = given[turn]
        return found

    def extra_repr(self) -> str:
        """The layers."""
        return f"layers={list(self.layers)}"


def feature_extractor(
    model: Module, layers: str | Iterable[str] | Mapping[str, str]
) -> FeatureExtractor:
    """A Module that calls ``model`` and returns the outputs of some of its layers as a dict.

    It shares the model's parameters, buffers and mode, and leaves nothing in the model. Of a layer
    that is called several times in one call it gives the last output; ``"relu:0"`` is the first.

    Args:
        model: any Module.
        layers: paths as ``named_modules`` gives them, with ``*`` and ``?`` for any name between two
            dots; or a dict from path to the name in the result. The path ``""`` is the model.

    Returns:
        a Module whose call gives ``{name: output}``, in the order of ``layers``.

    Raises:
        ValueError: for a path that the model does not have, with those that are close.
        StateError: in a call that does not reach a layer.

    Example:
        >>> import fx
        >>> from fx import nn
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> features = nn.feature_extractor(model, {"1": "hidden", "": "logits"})
        >>> {name: x.shape for name, x in features(fx.ones((5, 3))).items()}
        {'hidden': (5, 4), 'logits': (5, 2)}
    """
    paths = [path for path, _ in model.named_modules(remove_duplicate=False)]
    renamed = isinstance(layers, Mapping)
    found: dict[str, str] = {}
    for pattern in [layers] if isinstance(layers, str) else layers:
        matching = _matching(model, pattern, paths)
        if renamed and len(matching) > 1:
            raise ValueError(
                f"feature_extractor: {pattern!r} stands for {len(matching)} layers {matching}, "
                f"which cannot have one name; give a list, or one path a name"
            )
        for path in matching:
            found[path] = layers[pattern] if renamed else path  # type: ignore[index]
    return FeatureExtractor(model, found)


def _parted(path: str) -> tuple[str, int]:
    """The path of a layer, and which of its outputs is wanted."""
    layer, colon, turn = path.rpartition(":")
    return (layer, int(turn)) if colon else (path, -1)


def _matching(model: Module, pattern: str, paths: list[str]) -> list[str]:
    layer, turn = _parted(pattern)
    suffix = pattern[len(layer) :] if turn >= 0 else ""
    steps = layer.split(".")
    out = [
        path + suffix
        for path in paths
        if path == layer
        or (
            path
            and len(steps) == path.count(".") + 1
            and all(map(fnmatchcase, path.split("."), steps))
        )
    ]
    if not out:
        near = get_close_matches(layer, paths, n=3, cutoff=0.4)
        meant = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {paths[1:20]}"
        raise ValueError(
            f"feature_extractor: {type(model).__name__} has no layer {pattern!r}; {meant}"
        )
    return out
