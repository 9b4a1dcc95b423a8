"""Parallel maps of a costly function, over processes or a dask cluster."""

from collections.abc import Callable
from typing import Any

from pliant.core import InputError
from pliant.parallel.cluster import Cluster
from pliant.parallel.pool import Pool
from pliant.parallel.workers import Job, SerialWorkers, Workers

__all__ = ["Cluster", "Job", "Pool", "SerialWorkers", "Workers", "make_workers"]


def make_workers(
    f: Callable[..., Any], *, workers: int | None = None, cluster: str | None = None
) -> Workers:
    """Return workers that evaluate f.

    By default there is one process per core, or `workers` processes. With `cluster`, the workers of
    the dask scheduler at that address are used. Raises `InputError` if both are given.
    """
    if cluster is not None and workers is not None:
        raise InputError(
            f"Both workers={workers} and the cluster '{cluster}' are given. Leave one out: a "
            "cluster has its own workers."
        )
    if cluster is not None:
        return Cluster(f, cluster)
    return SerialWorkers(f) if workers == 1 else Pool(f, workers)
