"""swimmer-ppo: PPO trains a neural network that steers the swimming robot, on refined grids of the
added mass [Jia2019, Fig. 5(c), Table I, third row]."""

from collections.abc import Mapping

from pliant.learning import PPO, CosineRate
from pliant.zoo.experiment import Experiment, ExperimentRun, Outcome, Setting
from pliant.zoo.refinement_report import PaperValues
from pliant.zoo.swimming_training import QUICK, SETTINGS, check, probe, train_swimmers
from pliant.zoo.swimming_training_report import training_outcome

# Table I, third row; 3.2 million calls follow from 1,973 and the factor 1,638
PAPER: PaperValues = {
    "evaluations": 1973,
    "steps": "3.2 million, from the factor 1,638",
    "reduction": 1638,
    "error": 5e-5,
    "levels": 3,
}


def method(s: Mapping[str, Setting]) -> PPO:
    """Return the method of settings. Its noise falls over the iterations of the first level."""
    return PPO(
        steps=int(s["iteration_steps"]),
        environments=int(s["environments"]),
        batch=int(s["batch"]),
        rate=float(s["rate"]),
        noise=float(s["noise"]),
        noise_schedule=CosineRate(
            iterations=int(s["iterations"]), last=float(s["fine_noise"]) / float(s["noise"])
        ),
        discount=float(s["discount"]),
    )


def perform(run: ExperimentRun) -> Outcome:
    found = train_swimmers(run, method(run.settings))
    title = "swimmer-ppo: the controller swims forward"
    return training_outcome(found, run.settings, title, PAPER)


def check_settings(s: Mapping[str, Setting]) -> None:
    check(s)
    method(s)


EXPERIMENT = Experiment(
    name="swimmer-ppo",
    paper="000",
    shows="PPO trains a controller of four ellipsoids with three motors, on refined grids",
    size="1,412 surface points, 3 torques, 200 steps",
    takes="20 min",
    perform=perform,
    probe=probe,
    uses_cluster=True,
    check_settings=check_settings,
    settings={
        **SETTINGS,
        "iteration_steps": 16_384,
        "environments": 64,
        "batch": 1024,
        "rate": 1e-3,
        "noise": 0.3,
        "fine_noise": 0.06,  # of the finer levels
        "discount": 0.99,
    },
    quick={**QUICK, "iteration_steps": 160, "environments": 8, "batch": 40},
)
