"""What passes between the ranks of a pipeline in one step.

The first message of a stage in a step says what follows: shapes, dtypes, and which of the tensors
want a cotangent. If an earlier step said the same, it is two numbers. What the stage then gives for
another micro-batch must be the same, or the step ends by name before anything is sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fx.distributed.errors import DistError
from fx.distributed.messages import isend
from fx.distributed.pairs import received
from fx.distributed.work import Work
from fx.dtypes import as_dtype
from fx.tensor import Tensor, new_tensor

_TAGS = 1 << 20  # beyond those that programs give their own messages


class Passed(NamedTuple):
    """A tensor that passes between stages, without its value."""

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool

    def __str__(self) -> str:
        text = f"{self.dtype}{list(self.shape)}"
        return f"{text}, which requires grad" if self.requires_grad else text


def listed(specs: Sequence[Any]) -> str:
    """Several as text."""
    return "; ".join(map(str, specs)) or "nothing"


class Said:
    """What the stages of a rank have said and heard in all steps so far, numbered by stage."""

    def __init__(self) -> None:
        self.out: dict[tuple[int, str], int] = {}
        self.heard: dict[tuple[int, int], str] = {}


class Channel:
    """The messages of one step.

    Args:
        group: the ranks of the pipeline.
        home: the rank of each stage.
        microbatches: how many there are.
        said: what earlier steps said.
    """

    def __init__(self, group: Any, home: dict[int, int], microbatches: int, said: Said) -> None:
        self.group, self.home, self.said = group, home, said
        self.stride = microbatches + 1
        self.results: dict[int, tuple[Passed, ...]] = {}  # by the stage that gives them
        self.begun: set[int] = set()  # stages whose first message is sent
        self.works: list[Work] = []

    def fix(self, stage: int, microbatch: int, specs: tuple[Passed, ...]) -> None:
        """A stage gives such results, in this step.

        Raises:
            DistError: if it gave others for an earlier micro-batch.
        """
        known = self.results.setdefault(stage, specs)
        if known != specs:
            raise DistError(
                f"stage {stage} gave {listed(known)} for the first microbatch of the step, and "
                f"{listed(specs)} for microbatch {microbatch}; all microbatches pass alike"
            )

    def send_results(self, stage: int, microbatch: int, tensors: Sequence[Tensor]) -> None:
        """Send what a stage gives to the next one."""
        peer = self.home[stage + 1]
        if stage not in self.begun:
            self.begun.add(stage)
            text = json.dumps(self.results[stage])
            new = (stage, text) not in self.said.out
            number = self.said.out.setdefault((stage, text), len(self.said.out))
            head = np.frombuffer(text.encode(), np.uint8)
            self._send(np.array([number, head.size if new else 0]), peer, self._tag(stage, 0))
            if new:
                self._send(head, peer, self._tag(stage, 0))
        for x in tensors:
            self._send(x, peer, self._tag(stage, 0, microbatch))

    def take_results(self, stage: int, microbatch: int) -> list[Tensor]:
        """What a stage of another rank gave."""
        peer = self.home[stage]
        if stage not in self.results:
            number, size = self._take([((2,), np.int64)], peer, self._tag(stage, 0))[0].tolist()
            if size:
                head = self._take([((size,), np.uint8)], peer, self._tag(stage, 0))[0]
                self.said.heard[stage, number] = head.tobytes().decode()
            text = self.said.heard.get((stage, number))
            if text is None:
                raise DistError(
                    f"rank {self.group.ranks[peer]} goes on with a schedule of which this rank has "
                    f"made another; make the schedules anew in all ranks"
                )
            self.results[stage] = tuple([Passed(tuple(a), b, c) for a, b, c in json.loads(text)])
        specs = [(p.shape, as_dtype(p.dtype)) for p in self.results[stage]]
        return [new_tensor(a) for a in self._take(specs, peer, self._tag(stage, 0, microbatch))]

    def send_cotangents(self, stage: int, microbatch: int, tensors: Sequence[Tensor]) -> None:
        """Send the cotangents of what the stage before gave."""
        for x in tensors:
            self._send(x, self.home[stage - 1], self._tag(stage - 1, 1, microbatch))

    def take_cotangents(self, stage: int, microbatch: int) -> list[Tensor]:
        """The cotangents of those results of a stage that want one."""
        wanted = [p for p in self.results[stage] if p.requires_grad]
        specs = [(p.shape, as_dtype(p.dtype)) for p in wanted]
        peer = self.home[stage + 1]
        return [new_tensor(a) for a in self._take(specs, peer, self._tag(stage, 1, microbatch))]

    def sum_over(self, ranks: Sequence[int], number: int, part: Tensor) -> Tensor:
        """The sum of the parts of some ranks, this one among them, added in their order."""
        tag = self._tag(len(self.home) + number, 0)
        spec = [(tuple(part.shape), part.dtype)]
        first, me = ranks[0], self.group.rank()
        if me != first:
            self._send(part, first, tag)
            return new_tensor(self._take(spec, first, tag)[0])
        for rank in ranks[1:]:
            part = part + new_tensor(self._take(spec, rank, tag)[0])
        for rank in ranks[1:]:
            self._send(part, rank, tag)
        return part

    def poll(self) -> None:
        """Let what is under way get on."""
        self.works = [work for work in self.works if not work.is_completed()]

    def end(self) -> None:
        """Wait until all is sent."""
        for work in self.works:
            work.wait()
        self.works = []

    def _tag(self, stage: int, back: int, microbatch: int | None = None) -> int:
        at = self.stride - 1 if microbatch is None else microbatch
        return _TAGS + (2 * stage + back) * self.stride + at

    def _send(self, x: Any, peer: int, tag: int) -> None:
        x = x if isinstance(x, Tensor) else new_tensor(x)
        self.works.append(isend(x, group=self.group, group_dst=peer, tag=tag))

    def _take(self, specs: Sequence[tuple[Any, Any]], peer: int, tag: int) -> list[Any]:
        works = [
            received(np.empty(shape, dtype), lambda x: x, self.group, peer, tag)
            for shape, dtype in specs
        ]
        return [work.value() for work in works]
