"""FitObjective: the misfit of a model to measurements, by its variables and time offsets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.design.measured_scene import MeasuredScene
from pliant.optimisation import ObjectiveEvaluation, ProblemObjective
from pliant.optimisation.objective import Indices
from pliant.optimisation.problem_identity import problem_identity
from pliant.optimisation.scene_run import FAILURES, SceneRun
from pliant.planners.checkpoints import Checkpoints
from pliant.problem import Problem
from pliant.problem.problem import ObservationTerm

OFFSET = "offset"  # name of the time offset of a recording, with the name of the recording


@dataclass(frozen=True, kw_only=True, eq=False)
class FitObjective:
    """Half the sum of squared residuals over all measurements, plus the terms of the problem.

    The variables are those of the problem, then a time offset for each recording, in units of the
    largest one. The samples are the measurements, or the first ones of them. Those of a first fit
    have the variables of all.
    """

    problem: Problem  # with a scene for each measurement, in which the offsets are zero
    measured: tuple[MeasuredScene, ...]
    largest_offset: float = 0.0  # [s]; 0: no offset is a variable
    workers: int | None = 1
    # [bytes] of stored states and steps; short recordings then need no repeated simulation
    checkpoints: Checkpoints = 2.0**28
    first: int | None = None  # number of measurements that count; None: all
    # the last objectives by their offsets; a copy with another `first` shares them
    kept: dict[bytes, ProblemObjective] = field(repr=False, default_factory=dict)

    # Variables

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """The scenes whose offsets are variables."""
        if self.largest_offset == 0.0:
            return ()
        return tuple(k for k, one in enumerate(self.measured) if one.rates is not None)

    @property
    def n_inner(self) -> int:
        """The number of variables without the offsets."""
        return self.problem.layout.size

    @property
    def start(self) -> Array:
        return np.concatenate([self.problem.layout.start, np.zeros(len(self.timed))])

    @property
    def bounds(self) -> tuple[Array, Array]:
        lower, upper = self.problem.layout.bounds
        ends = np.ones(len(self.timed))
        return np.concatenate([lower, -ends]), np.concatenate([upper, ends])

    @property
    def n_samples(self) -> int:
        return len(self.measured) if self.first is None else self.first

    def offsets(self, z: Array) -> Array:
        """Return the time offset (n_scenes,) [s] of each measurement."""
        out = np.zeros(len(self.measured))
        out[list(self.timed)] = self.largest_offset * z[self.n_inner :]
        return out

    def named_values(self, z: Array) -> Mapping[str, Array]:
        """Return the values of the variables by name, in their units."""
        offsets = {
            f"{OFFSET}[{self.measured[k].name}]": self.offsets(z)[k : k + 1] for k in self.timed
        }
        return {**self.problem.layout.values(z[: self.n_inner]), **offsets}

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must agree for a fit to be resumed."""
        return {
            **problem_identity(self.problem),
            "measurements": {one.name: one.digest for one in self.measured},
            "largest offset": self.largest_offset,
            "measurements fitted first": self.first,
        }

    # Evaluations

    def at_offsets(self, z: Array) -> ProblemObjective:
        """Return the objective of the variables without the offsets, at the offsets of z."""
        offsets = self.offsets(z)
        key = offsets.tobytes()
        found = self.kept.pop(key, None)
        if found is None:
            scenes = [
                replace(scene, terms=(ObservationTerm(observations=one.observations(offset)),))
                if offset
                else scene
                for scene, one, offset in zip(
                    self.problem.scenes, self.measured, offsets, strict=True
                )
            ]
            problem = replace(self.problem, scenes=scenes) if offsets.any() else self.problem
            found = ProblemObjective(
                problem,
                checkpoints=self.checkpoints,
                workers=self.workers,
                allow_independent=True,
            )
        self.kept[key] = found
        for old in list(self.kept)[:-2]:
            self.kept.pop(old).close()
        return found

    def close(self) -> None:
        """Stop the processes."""
        for objective in self.kept.values():
            objective.close()

    def value(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self.at_offsets(z).value(z[: self.n_inner], self._counting(samples))

    def gradient(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        """Return the value and its gradient (n,)."""
        samples = self._counting(samples)
        found = self.at_offsets(z).gradient(z[: self.n_inner], samples)
        if found.failed or not self.timed:
            return found
        chosen = range(self.n_samples) if samples is None else samples
        by_offset, count = np.zeros(len(self.timed)), 0
        for j, k in enumerate(self.timed):
            if k in chosen:
                residuals, column = self._offset_column(k, z)
                by_offset[j], count = residuals @ column, count + 1
        return replace(
            found,
            gradient=np.concatenate([np.asarray(found.gradient), by_offset]),
            simulations=found.simulations + count,
        )

    def residuals(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        return self.at_offsets(z).residuals(z[: self.n_inner], self._counting(samples))

    def jacobian(self, z: Array, samples: Indices | None = None) -> ObjectiveEvaluation:
        """Return the residuals (r,) and their derivative (r, n)."""
        samples = self._counting(samples)
        found = self.at_offsets(z).jacobian(z[: self.n_inner], samples)
        chosen = list(range(self.n_samples) if samples is None else samples)
        if found.failed or not self.timed:
            return found
        inner, starts = (
            np.asarray(found.jacobian),
            np.cumsum([0, *(self.counts[k] for k in chosen)]),
        )
        columns, count = np.zeros((len(inner), len(self.timed))), 0
        for j, k in enumerate(self.timed):
            if k not in chosen:
                continue
            rows = slice(*starts[chosen.index(k) :][:2])
            try:
                columns[rows, j] = self._offset_column(k, z)[1]
            except FAILURES as why:
                return ObjectiveEvaluation(failed=str(why), simulations=found.simulations)
            count += 1
        jacobian = np.concatenate([inner, columns], axis=1)
        return replace(
            found,
            jacobian=jacobian,
            gradient=jacobian.T @ np.asarray(found.residuals),
            simulations=found.simulations + count,
        )

    def _counting(self, samples: Indices | None) -> Indices | None:
        """Return the samples; without any the first measurements, or None if all count."""
        return range(self.first) if samples is None and self.first is not None else samples

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of residuals of each measurement."""
        return tuple(one.count for one in self.measured)

    def _offset_column(self, k: int, z: Array) -> tuple[Array, Array]:
        """Return the residuals (r,) of scene k and their derivative by its offset variable."""
        rates, inner = self.measured[k].rates, self.at_offsets(z)
        assert rates is not None
        extra = rates(float(self.offsets(z)[k]))
        scene = SceneRun(layout=inner.layout, k=k, z=z[: self.n_inner], extra=extra)
        run = scene.simulate()
        n = len(run.problem.observations)
        residuals = [
            one.loss.residuals(y)  # type: ignore[attr-defined]
            for one, y in zip(run.problem.observations, run.values[:n], strict=True)
        ]
        column = self.largest_offset * np.concatenate(run.values[n:])
        return np.concatenate(residuals), column

    # Simulations

    def states(self, k: int, z: Array) -> Array:
        """Return the states (steps + 1, n_state) of scene k. Raises one of FAILURES."""
        layout = self.at_offsets(z).layout
        run = SceneRun(layout=layout, k=k, z=z[: self.n_inner]).begin()
        states = [run.start]
        for step in range(run.problem.steps):
            states.append(run.step(step, states[-1]).x)
        return np.array(states)
