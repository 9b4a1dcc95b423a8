"""Errors of a trained controller: its closed loop on the surrogate beside the exact model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array, InputError, PliantError, Refinable, is_integer, quoted
from pliant.learning.loop_episodes import LoopEpisode, LoopEpisodes
from pliant.learning.training_result import TrainingResult
from pliant.planners.certificate import Certificate, Replay, certify_motion, replay_of
from pliant.planners.plan_result import Evaluation


@dataclass(frozen=True, kw_only=True, eq=False)
class ControllerCertificate:
    """The errors of a controller that was trained on a surrogate, one certificate for each episode.

    In the replay of a certificate, the closed loop runs on the exact model from the same initial
    state. So the controller sees the states of the exact model and may correct them.
    """

    certificates: tuple[Certificate, ...]
    notes: tuple[str, ...] = ()  # such as why a finer level is missing

    @property
    def surrogate_return(self) -> float:
        """Mean return on the surrogate."""
        return -float(np.mean([one.cost for one in self.certificates]))

    @property
    def exact_return(self) -> float | None:
        """Mean return of the replays; None if one failed."""
        costs = [one.replay_cost for one in self.certificates]
        return None if None in costs else -float(np.mean(costs))  # type: ignore[arg-type]

    @property
    def replay_failed(self) -> str:
        """Why the first replay that failed did; empty if none failed."""
        return next((one.replay_failed for one in self.certificates if one.replay_failed), "")

    @property
    def replay_evaluations(self) -> int:
        """Number of exact evaluations of all replays."""
        return sum(one.replay_evaluations for one in self.certificates)

    @property
    def effector_error(self) -> float | None:
        """Largest distance [m] of an effector between episode and replay; None if one failed."""
        return _largest([one.effector_error for one in self.certificates])

    @property
    def step_error(self) -> float | None:
        """Largest |g~ - g| / |g| over positions and velocities [Jia2019] at random steps."""
        return _largest([one.step_error for one in self.certificates])

    @property
    def estimated_step_error(self) -> float | None:
        """Largest estimate of `step_error` over all steps; None without estimates."""
        return _largest([one.estimated_step_error for one in self.certificates])

    def lines(self) -> list[str]:
        """Return the errors as lines of text."""
        known = self.exact_return
        exact = f"failed ({self.replay_failed})" if known is None else f"{known:.6g}"
        mean = f"mean return {self.surrogate_return:.6g} on the surrogate, {exact} on replay"
        lines = [line for one in self.certificates for line in one.lines()]
        return [mean, *lines, *(f"note: {note}" for note in self.notes)]


def _largest(values: Sequence[float | None]) -> float | None:
    return None if None in values else max(values)  # type: ignore[type-var]


def certify_controller(
    result: TrainingResult,
    *,
    models: Sequence[Refinable] = (),
    episodes: int = 1,
    points: int = 6,
    seed: int = 0,
) -> ControllerCertificate:
    """Return the errors of a trained controller.

    Parameters
    ----------
    result : a training on a model with a surrogate, with its loop and task
    models : the models of the training on increasingly fine grids, the last one that of `result`;
        they give the observed order. None for the last one only.
    episodes : number of episodes to replay, of those of the training
    points : number of random steps of each episode that are compared with exact steps
    seed : of the random steps

    Raises InputError if the model has no surrogate.
    """
    found = result.on_model()
    if not isinstance(found.loop.model, Refinable):
        raise InputError(
            f"A certificate needs a model with a surrogate, not {type(found.loop.model).__name__}; "
            "take one such as Latent(robot, dt=..., cell=...)."
        )
    for name, value in (("episodes", episodes), ("points", points)):
        if not is_integer(value) or value < 1:
            raise InputError(
                f"The number of {name} of a certificate is {quoted(value)}; give a whole number, "
                "1 or more."
            )
    return ControllerCertificate(
        certificates=tuple(
            _certificate(found, result.weights, start, models, points, seed)
            for start in found.starts[:episodes]
        )
    )


def _certificate(
    episodes: LoopEpisodes,
    weights: Array,
    start: Array,
    models: Sequence[Refinable],
    points: int,
    seed: int,
) -> Certificate:
    run, loop = episodes.run(weights, start), episodes.loop
    return certify_motion(
        models or [loop.model],  # type: ignore[list-item]
        run.states,
        run.controls,
        cost=run.cost,
        replay=_replay(episodes, weights, run),
        points=points,
        seed=seed,
    )


def _replay(episodes: LoopEpisodes, weights: Array, run: LoopEpisode) -> Replay:
    """Run the closed loop on the model that replays it."""
    loop = episodes.loop
    try:
        model, first = loop.model.replay_model(run.states[0])  # type: ignore[attr-defined]
        task = replace(episodes.task, x0=None)
        exact = replace(
            episodes, loop=replace(loop, model=model), task=task, problem=task.problem(model)
        )
        found = exact.run(weights, first)
    except (
        PliantError
    ) as error:  # such as a goal or an observer for a part of the surrogate's state
        return Replay(evaluation=None, failed=str(error))
    evaluation = Evaluation(
        controls=found.controls,
        states=found.states,
        steps=(),
        cost=found.cost,
        failed=found.failed,
    )
    return replay_of(evaluation, model)
