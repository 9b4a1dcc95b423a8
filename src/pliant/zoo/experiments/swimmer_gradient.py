"""swimmer-gradient: the task of swimmer-ppo with analytic policy gradients: the same network, the
same reward, and the derivatives of the model in place of random trials."""

from collections.abc import Mapping

from pliant.learning import CosineRate, PolicyGradient
from pliant.zoo.experiment import Experiment, ExperimentRun, Outcome, Setting
from pliant.zoo.swimming_training import (
    QUICK,
    SETTINGS,
    check,
    iteration_counts,
    probe,
    train_swimmers,
)
from pliant.zoo.swimming_training_report import training_outcome


def method(s: Mapping[str, Setting]) -> PolicyGradient:
    """Return the method of settings. Its rate falls over the iterations of all levels."""
    return PolicyGradient(
        rate=float(s["rate"]),
        episodes=int(s["episodes"]),
        schedule=CosineRate(iterations=sum(iteration_counts(s)), last=0.1),
    )


def perform(run: ExperimentRun) -> Outcome:
    found = train_swimmers(run, method(run.settings))
    title = "swimmer-gradient: the controller swims forward"
    return training_outcome(found, run.settings, title, {})


def check_settings(s: Mapping[str, Setting]) -> None:
    check(s)
    method(s)


EXPERIMENT = Experiment(
    name="swimmer-gradient",
    paper="000",
    shows="analytic policy gradients train the controller of swimmer-ppo with fewer steps",
    size="1,412 surface points, 3 torques, 200 steps",
    takes="10 min",
    perform=perform,
    probe=probe,
    uses_cluster=True,
    check_settings=check_settings,
    settings={
        **SETTINGS,
        "iterations": 40,
        "fine_iterations": 2,
        "target_return": 0.12,
        "rate": 0.01,
        "episodes": 4,
    },
    quick={**QUICK, "iterations": 3, "episodes": 2},
)
