"""Map over workers: whoever evaluates a costly function many times."""

from collections.abc import Callable
from typing import Any

from pliant.core import InputError
from pliant.parallel.cluster import Cluster
from pliant.parallel.job import Crew, Here, Job
from pliant.parallel.pool import Pool

__all__ = ["Cluster", "Crew", "Here", "Job", "Pool", "crew"]


def crew(f: Callable[..., Any], *, workers: int | None = None, cluster: str | None = None) -> Crew:
    """Workers for f: a process for each core, or `workers` of them, or those of the dask scheduler
    at the address `cluster`."""
    if cluster is not None and workers is not None:
        raise InputError(
            f"Both workers={workers} and the cluster '{cluster}' are given; leave one out, for a "
            "cluster brings its own workers."
        )
    if cluster is not None:
        return Cluster(f, cluster)
    return Here(f) if workers == 1 else Pool(f, workers)
