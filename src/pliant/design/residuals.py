"""Residuals of a fit: measured and predicted values, and their statistics for each marker."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pliant.core import Array
from pliant.design.measured_scene import MeasuredScene

CORRELATED = 0.5  # correlation of neighbouring residuals above which intervals are too narrow
MIN_NEIGHBOURS = 20  # pairs of neighbouring residuals, for a correlation that means something


@dataclass(frozen=True, kw_only=True)
class MarkerResiduals:
    """The residuals (predicted minus measured) of one marker of a measurement."""

    measurement: str
    marker: str
    count: int  # coordinates with a sample
    rms: float  # [unit] root mean square of a coordinate
    bias: float  # [unit] length of the mean
    largest: float  # [unit] largest distance
    correlation: float  # of neighbouring residuals in time; 0 for noise without memory
    unit: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """A measurement, and what a model predicts for it: values (n, m, c), of m markers with c
    coordinates at n times."""

    name: str
    measured: Array  # (n, m, c), NaN where missing
    predicted: Array  # (n, m, c)
    axis: Array  # (n,) times [s], or factors or numbers of the rows
    axis_label: str
    markers: tuple[str, ...]
    unit: str
    scale: Array  # (m,) noise, or the unit of the residuals

    @classmethod
    def of(cls, scene: MeasuredScene, states: Array, offset: float = 0.0) -> Self:
        """Return the prediction by states (steps + 1, n_state), with a time offset [s]."""
        return cls(
            name=scene.name,
            measured=scene.values,
            predicted=scene.predict(states, offset),
            axis=scene.axis,
            axis_label=scene.axis_label,
            markers=scene.markers,
            unit=scene.unit,
            scale=scene.scale,
        )

    @cached_property
    def residuals(self) -> Array:
        """Predicted minus measured values (n, m, c), NaN where missing."""
        return self.predicted - self.measured

    @property
    def scaled(self) -> Array:
        """The residuals (k,) of all samples, in units of the noise."""
        scaled = (self.residuals / self.scale[:, None]).ravel()
        return scaled[~np.isnan(scaled)]

    @property
    def rms(self) -> float:
        """Root mean square of the residuals of a coordinate, in the unit of the measurement."""
        return float(np.sqrt(np.nanmean(self.residuals**2)))

    @cached_property
    def statistics(self) -> tuple[MarkerResiduals, ...]:
        """The statistics of each marker."""
        return tuple(
            self._marker(name, self.residuals[:, j]) for j, name in enumerate(self.markers)
        )

    def _marker(self, name: str, residuals: Array) -> MarkerResiduals:
        seen = residuals[~np.isnan(residuals).any(axis=1)]
        return MarkerResiduals(
            measurement=self.name,
            marker=name,
            count=seen.size,
            rms=float(np.sqrt(np.mean(seen**2))),
            bias=float(np.linalg.norm(seen.mean(axis=0))),
            largest=float(np.linalg.norm(seen, axis=1).max()),
            correlation=neighbour_correlation(residuals),
            unit=self.unit,
        )


def neighbour_correlation(residuals: Array) -> float:
    """Return the correlation of neighbouring rows of residuals (n, c); 0 if there are too few."""
    centred = residuals - np.nanmean(residuals, axis=0)
    product = (centred[1:] * centred[:-1]).ravel()
    product = product[~np.isnan(product)]
    power = float(np.nanmean(centred**2))
    if len(product) < MIN_NEIGHBOURS or power == 0.0:
        return 0.0
    return float(np.clip(product.mean() / power, -1.0, 1.0))
