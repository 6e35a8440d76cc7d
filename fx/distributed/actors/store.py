"""A store that lives in an actor of Ray, which others find by its name in the cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fx.distributed.actors import engine
from fx.distributed.errors import DistError
from fx.distributed.store import DEFAULT_TIMEOUT, Store, Table


class RayStore(Store):
    """A store whose table an actor holds; it lives as long as the first who asked for it.

    Args:
        name: processes that give the same name have the same store.
        timeout: of ``get`` and ``wait``.

    Raises:
        DistBackendError: if Ray is not installed.
        DistError: if this process is not in a cluster of Ray.

    Example:
        >>> import fx.distributed as dist
        >>> from fx.distributed.actors.store import RayStore
        >>> try:
        ...     RayStore("world")
        ... except dist.DistError as error:  # no Ray, or not in its cluster
        ...     "ray" in str(error).lower()
        True
    """

    def __init__(self, name: str, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        ray = engine()
        if not ray.is_initialized():
            raise DistError(
                "this process is in no cluster of Ray: call it in an actor or a task, or "
                "ray.init(address=...) before"
            )
        self.name = name
        self.host = ray.util.get_node_ip_address()
        options = {"name": f"fx.store.{name}", "get_if_exists": True, "num_cpus": 0}
        actor = ray.remote(Table).options(max_concurrency=_CALLS, **options).remote()
        super().__init__(_Calls(ray, actor), timeout)

    def __repr__(self) -> str:
        return f"RayStore({self.name!r})"


_CALLS = 1000  # that wait at once


class _Calls:
    """The methods of a table, each as a call of the actor that has it."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._actor, name)
        return lambda *args: self._ray.get(method.remote(*args))
