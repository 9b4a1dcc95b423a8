"""Clusters of weighted points, the same for equal seeds."""

import numpy as np

from pliant.core import Array, InputError, counted

MAX_ITERATIONS = 300  # Lloyd's iteration ends much earlier; this bounds cycles of equal distances


def k_means(points: Array, weights: Array, k: int, seed: int) -> Array:
    """Return the cluster (n,) of each point (n, dim) with positive weights (n,).

    The first centres are those of k-means++ (Arthur and Vassilvitskii 2007); Lloyd's iteration
    improves them. Clusters are sorted by the coordinates of their centres. Raises InputError for
    fewer different points than clusters.
    """
    different = len(np.unique(points, axis=0))
    if different < k:
        raise InputError(
            f"The array has {counted(different, 'different point')}, but {k} clusters; take a "
            "smaller k."
        )
    centres = _first_centres(points, weights, k, np.random.default_rng(seed))
    labels = np.full(len(points), -1)
    for _ in range(MAX_ITERATIONS):
        before, labels = labels, _nearest(points, weights, centres)
        if np.array_equal(before, labels):
            break
        mass = np.bincount(labels, weights, k)
        moments = [np.bincount(labels, weights * column, k) for column in points.T]
        centres = np.stack(moments, axis=1) / mass[:, None]
    order = np.lexsort(centres.T[::-1])
    return np.argsort(order)[labels]


def _squared_distances(points: Array, centres: Array) -> Array:
    """Return the squared distances (n, k)."""
    return np.stack([np.sum((points - centre) ** 2, axis=1) for centre in centres], axis=1)


def _first_centres(points: Array, weights: Array, k: int, rng: np.random.Generator) -> Array:
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    while len(chosen) < k:
        share = weights * _squared_distances(points, points[chosen]).min(axis=1)
        chosen.append(int(rng.choice(len(points), p=share / share.sum())))
    return points[chosen]


def _nearest(points: Array, weights: Array, centres: Array) -> Array:
    """Return the nearest centre of each point. An empty cluster gets the point that is farthest
    from its centre."""
    squares = _squared_distances(points, centres)
    labels = squares.argmin(axis=1)
    far = weights * squares[np.arange(len(points)), labels]
    for j in np.flatnonzero(np.bincount(labels, minlength=len(centres)) == 0):
        alone = np.bincount(labels, minlength=len(centres))[labels] == 1
        labels[np.argmax(np.where(alone, -1.0, far))] = j
    return labels
