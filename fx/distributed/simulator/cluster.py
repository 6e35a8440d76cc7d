"""Clusters: hosts with devices, the links between them, and how long messages take.

A message of ``n`` bytes takes ``latency + n / bandwidth`` on a link: Hockney's model (1994).
Collectives are the usual algorithms on it (Thakur, Rabenseifner and Gropp, 2005): halving, or
doubling where that is faster, and inside of hosts before between them.
"""

from __future__ import annotations

from math import ceil, log2

from fx.errors import ArgumentError
from fx.slotted import slotted


@slotted(frozen=True)
class Link:
    """What passes a message on.

    Attributes:
        latency: seconds until the first byte is there.
        bandwidth: bytes a second in each direction.
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        positive("Link", bandwidth=self.bandwidth)
        not_negative("Link", latency=self.latency)

    def time(self, nbytes: float) -> float:
        """Seconds that a message takes."""
        return self.latency + nbytes / self.bandwidth


@slotted(frozen=True)
class Cluster:
    """Hosts of equal devices.

    Attributes:
        hosts: how many there are.
        devices: of each host.
        flops: operations a second of a device, as programs reach them and not as data sheets say.
        bandwidth: bytes a second of a device's memory.
        memory: bytes of a device.
        inside: the link of two devices of a host.
        between: the link of two hosts, which all devices of a host share.
        spread: how much the speed of devices varies from step to step: the standard deviation of
            the logarithm of the time of a step; 0.05 is 5 %.
        mtbf: seconds between two failures of one device (or of what it cannot do without).
        storage: bytes a second that all devices together write to a checkpoint.
        restart: seconds from a failure until the job runs again, without loading.

    Raises:
        ArgumentError: if there are no devices, or a figure is not positive.

    Example:
        >>> from fx.distributed.simulator import Cluster, Link
        >>> machine = Cluster(
        ...     hosts=2,
        ...     devices=4,
        ...     flops=1e14,
        ...     bandwidth=2e12,
        ...     memory=80e9,
        ...     inside=Link(5e-6, 200e9),
        ...     between=Link(2e-5, 25e9),
        ... )
        >>> round(machine.all_reduce(1e9, 8) * 1e3, 1)
        47.5
    """

    hosts: int
    devices: int
    flops: float
    bandwidth: float
    memory: float
    inside: Link
    between: Link
    spread: float = 0.0
    mtbf: float = float("inf")
    storage: float = 1e9
    restart: float = 60.0

    def __post_init__(self) -> None:
        for name in ("hosts", "devices"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ArgumentError(f"Cluster: {name} is an int of 1 or more, got {value!r}")
        figures = ("flops", "bandwidth", "memory", "mtbf", "storage")
        positive("Cluster", **{name: getattr(self, name) for name in figures})
        not_negative("Cluster", spread=self.spread, restart=self.restart)

    @property
    def ranks(self) -> int:
        """All devices."""
        return self.hosts * self.devices

    def link(self, ranks: int, apart: int = 1) -> Link:
        """The slowest link of a group of ``ranks`` whose numbers differ by ``apart``.

        Ranks fill a host before the next one; those of a host that send at once share its link.
        """
        if (ranks - 1) * apart < self.devices:
            return self.inside
        return self._hosts_link(1, apart)

    def all_reduce(self, nbytes: float, ranks: int, apart: int = 1) -> float:
        """Seconds until every one of ``ranks`` has the sum of ``nbytes`` bytes of each."""
        near, far = self._levels(ranks, apart)
        if far == 1:
            return _all_reduce(self.link(ranks, apart), nbytes, near)
        inner = self.reduce_scatter(nbytes, near, apart) + self.all_gather(nbytes, near, apart)
        return inner + _all_reduce(self._hosts_link(near, apart), nbytes / near, far)

    def reduce_scatter(self, nbytes: float, ranks: int, apart: int = 1) -> float:
        """Seconds until each of ``ranks`` has its part of the sum of ``nbytes`` bytes of each."""
        near, far = self._levels(ranks, apart)
        out = _scattered(self.inside if far > 1 else self.link(ranks, apart), nbytes, near)
        return out + _scattered(self._hosts_link(near, apart), nbytes / near, far)

    def all_gather(self, nbytes: float, ranks: int, apart: int = 1) -> float:
        """Seconds until every one of ``ranks`` has ``nbytes`` bytes, of which each had a part."""
        return self.reduce_scatter(nbytes, ranks, apart)  # the same messages backwards

    def send(self, nbytes: float, apart: int) -> float:
        """Seconds of a message to the rank whose number is ``apart`` further."""
        return self.link(2, apart).time(nbytes)

    def _levels(self, ranks: int, apart: int) -> tuple[int, int]:
        """How many ranks of a group are in a host, and in how many hosts."""
        near = max(1, min(ranks, self.devices // apart))
        return (near, ceil(ranks / near)) if near * apart <= self.devices else (1, ranks)

    def _hosts_link(self, near: int, apart: int) -> Link:
        """The link of hosts, of which the groups beside this one use as much."""
        sharing = min(near * apart, self.devices)
        return Link(self.between.latency, self.between.bandwidth / sharing)


def _all_reduce(link: Link, nbytes: float, n: int) -> float:
    """By a ring, or by doubling where the bytes are few."""
    if n == 1:
        return 0.0
    return min(2 * _scattered(link, nbytes, n), ceil(log2(n)) * link.time(nbytes))


def _scattered(link: Link, nbytes: float, n: int) -> float:
    """Halving: as many bytes as a ring, in fewer messages."""
    if n == 1:
        return 0.0
    return ceil(log2(n)) * link.latency + nbytes * (n - 1) / n / link.bandwidth


def positive(what: str, **figures: float) -> None:
    """Refuse what is 0 or less."""
    for name, value in figures.items():
        if not value > 0:
            raise ArgumentError(f"{what}: {name} must be positive, got {value!r}")


def not_negative(what: str, **figures: float) -> None:
    """Refuse what is less than 0."""
    for name, value in figures.items():
        if not value >= 0:
            raise ArgumentError(f"{what}: {name} must not be negative, got {value!r}")
