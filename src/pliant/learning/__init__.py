"""Learning: controllers, closed loops, and reinforcement learning environments for every model.

>>> import pliant as pl
>>> task = pl.learning.ControlTask(steps=20, terms=[pl.Effort()])
"""

from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.control_ranges import control_range
from pliant.learning.controllers import (
    BatchedController,
    LinearFeedback,
    SineGait,
    UserController,
)
from pliant.learning.mlp import MLP
from pliant.learning.observers import (
    BatchedObserver,
    EffectorObserver,
    LinearObserver,
    ObserverDescription,
    PartObserver,
    ScaledObserver,
    StackedObserver,
    UserObserver,
    attach_observer,
)
from pliant.learning.tasks import ControlTask, StepCosts, objective_gradients

__all__ = [
    "MLP",
    "BatchedController",
    "BatchedObserver",
    "ClosedLoop",
    "ControlTask",
    "EffectorObserver",
    "LinearFeedback",
    "LinearObserver",
    "ObserverDescription",
    "PartObserver",
    "ScaledObserver",
    "SineGait",
    "StackedObserver",
    "StepCosts",
    "UserController",
    "UserObserver",
    "attach_observer",
    "control_range",
    "objective_gradients",
]
