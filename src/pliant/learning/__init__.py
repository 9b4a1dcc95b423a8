"""Learning: controllers, closed loops, and reinforcement learning environments for every model.

>>> import pliant as pl
>>> task = pl.learning.ControlTask(steps=20, terms=[pl.Effort()])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pliant.learning.autoencoder import AutoencoderObserver
from pliant.learning.autoencoder_rounds import AutoencoderRounds, train_with_autoencoder
from pliant.learning.autoencoder_training import (
    AutoencoderSettings,
    reconstruction_error,
    train_autoencoder,
)
from pliant.learning.centroids import CentroidObserver
from pliant.learning.clocked_controller import ClockedController
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.control_ranges import control_range
from pliant.learning.controller_certificate import ControllerCertificate, certify_controller
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
from pliant.learning.open_loop import OpenLoop
from pliant.learning.particle_grid import ParticleGrid
from pliant.learning.phase_oscillators import PhaseOscillators
from pliant.learning.policy_gradient import PolicyGradient
from pliant.learning.ppo import PPO
from pliant.learning.recurrent import RecurrentNetwork
from pliant.learning.refinement import RefinedTraining, train_refined
from pliant.learning.seeds import SeedResults, train_seeds
from pliant.learning.strain import StrainObserver
from pliant.learning.tasks import ControlTask, StepCosts, objective_gradients
from pliant.learning.training import train
from pliant.learning.training_result import TrainingResult, TrainingRow
from pliant.learning.user_actuation import UserActuation
from pliant.learning.user_actuator import UserActuator
from pliant.optimisation.rates import CosineRate

if TYPE_CHECKING:
    from pliant.learning.autograd import TorchLayer, torch_layer
    from pliant.learning.environment import Env, EnvState
    from pliant.learning.vector_environment import VectorEnv

# names that need the extra `learn`, and their modules
OPTIONAL = {
    "Env": "environment",
    "EnvState": "environment",
    "TorchLayer": "autograd",
    "VectorEnv": "vector_environment",
    "torch_layer": "autograd",
}

__all__ = [
    "MLP",
    "PPO",
    "AutoencoderObserver",
    "AutoencoderRounds",
    "AutoencoderSettings",
    "BatchedController",
    "BatchedObserver",
    "CentroidObserver",
    "ClockedController",
    "ClosedLoop",
    "ControlTask",
    "ControllerCertificate",
    "CosineRate",
    "EffectorObserver",
    "Env",
    "EnvState",
    "LinearFeedback",
    "LinearObserver",
    "ObserverDescription",
    "OpenLoop",
    "PartObserver",
    "ParticleGrid",
    "PhaseOscillators",
    "PolicyGradient",
    "RecurrentNetwork",
    "RefinedTraining",
    "ScaledObserver",
    "SeedResults",
    "SineGait",
    "StackedObserver",
    "StepCosts",
    "StrainObserver",
    "TorchLayer",
    "TrainingResult",
    "TrainingRow",
    "UserActuation",
    "UserActuator",
    "UserController",
    "UserObserver",
    "VectorEnv",
    "attach_observer",
    "certify_controller",
    "control_range",
    "objective_gradients",
    "reconstruction_error",
    "torch_layer",
    "train",
    "train_autoencoder",
    "train_refined",
    "train_seeds",
    "train_with_autoencoder",
]


def __getattr__(name: str) -> Any:
    """Load names that need optional packages when they are first used."""
    if name not in OPTIONAL:
        raise AttributeError(f"module 'pliant.learning' has no attribute '{name}'")
    return getattr(import_module(f"pliant.learning.{OPTIONAL[name]}"), name)
