"""The scene of `pliant bench learning`: a soft biped whose neural network drives four pressure
chambers [Spielberg2021, listing 6]."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from pliant.actuators import Fluidic
from pliant.core import Array, Dynamics, InputError
from pliant.learning import MLP, ClosedLoop, ControlTask, UserObserver
from pliant.mpm import MaterialPoint
from pliant.problem import Effort, Reward
from pliant.zoo.robots.block_walkers import LEG, PRESSURE, block_biped

GRAVITY = -9.81  # [m/s^2]
EFFORT = 1e-10  # [m/(s Pa^2)], weight of the squared pressures
BLOCKS = block_biped()
# lower corner and size [m] of each group of particles; the paper gives no unit
GROUPS = np.array([(*block.bounds()[0], *block.size) for block in BLOCKS.blocks.values()])
CHAMBERS = tuple(list(BLOCKS.blocks).index(name) for name in BLOCKS.chambers)
HIDDEN = (64, 64)
# the observation is the displacement [m] and the velocity [m/s] of each group's centre over these
SCALES = np.tile([0.1, 0.1, 0.5, 0.5], len(GROUPS))


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkerScene:
    """A walker on a floor, its network and its loss: minus the distance [m] that the centre of mass
    moves, plus an effort. It has unit depth, and one particle in each cell of a group's lattice."""

    count: int = 40  # particles along each edge of a group
    steps: int = 200  # control steps
    substeps: int = 10  # of each
    tau: float = 4e-4  # [s], one substep
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 4 or self.count % 2 or self.steps < 1:
            raise InputError(
                f"The walker has {self.count} particles along a group and {self.steps} steps; give "
                "an even number of particles, 4 or more, and at least one step."
            )

    @property
    def cell(self) -> float:
        """The edge [m] of a grid cell, with at least 2 x 2 particles."""
        return 2 * LEG / self.count

    @property
    def dt(self) -> float:
        """The time [s] of a control step."""
        return self.tau * self.substeps

    @cached_property
    def positions(self) -> Array:
        """The particles (n, 2) [m] at rest, one group after the other."""
        return BLOCKS.particles(BLOCKS.robot(), self.count).samples.points

    @cached_property
    def volumes(self) -> Array:
        """The volumes (n,) [m^3] at rest."""
        each = GROUPS[:, 2] * GROUPS[:, 3] / self.count**2
        return np.repeat(each, self.count**2)

    @cached_property
    def centres(self) -> Array:
        """The centres (8, 2) [m] of the groups at rest."""
        return GROUPS[:, :2] + GROUPS[:, 2:] / 2

    @cached_property
    def network(self) -> MLP:
        return MLP(
            n_inputs=SCALES.size,
            lower=np.zeros(len(CHAMBERS)),
            upper=np.full(len(CHAMBERS), PRESSURE),
            hidden=HIDDEN,
            seed=self.seed,
            output_gain=1.0,
        )

    @property
    def layers(self) -> list[tuple[int, int]]:
        """The inputs and outputs of each layer of the network."""
        return list(pairwise(self.network.sizes))

    # Pliant

    def model(self, precision: str = "float64") -> MaterialPoint:
        """Return the model with these particles and isotropic pressures. Its adjoint keeps all
        substeps of a step."""
        pressures = {name: Fluidic(region=name, limits=(0.0, PRESSURE)) for name in BLOCKS.chambers}
        robot = replace(BLOCKS.robot(), actuators=pressures)
        return MaterialPoint(
            robot,
            dt=self.dt,
            cell=self.cell,
            substeps=self.substeps,
            memory=1e9,
            store_substeps=True,
            precision=precision,
            body=BLOCKS.particles(robot, self.count),
        )

    def loop(self, precision: str = "float64") -> ClosedLoop:
        """Return the walker with its network."""
        model = self.model(precision)
        return ClosedLoop(model, self.observer(model), self.network)

    def observer(self, model: Dynamics) -> UserObserver:
        """Return the observer of the groups' centres."""
        n, m = self.positions.size, self.count**2

        def observe(x: Array) -> Array:
            # a product with ones is faster than a mean over an inner axis
            means = np.ones(m) @ x[: 2 * n].reshape(2, len(GROUPS), m, 2) / m
            means[0] -= self.centres
            return np.concatenate([means[0], means[1]], axis=1).ravel() / SCALES

        def vjp(x: Array, y_bar: Array) -> Array:
            by_means = (y_bar / SCALES / m).reshape(len(GROUPS), 2, 2)
            out = np.zeros(model.space.size)
            rows = out[: 2 * n].reshape(2, len(GROUPS), m, 2)
            rows[...] = np.ones((m, 1)) @ by_means.transpose(1, 0, 2)[:, :, None]
            return out

        return UserObserver(size=SCALES.size, function=observe, vjp_function=vjp)

    def task(self) -> ControlTask:
        """Return the loss of the walker."""
        end = self.steps * self.dt
        distance = Reward(effector="body", direction=(1.0, 0.0), time=end, quantity="position")
        return ControlTask(steps=self.steps, terms=[distance, Effort(weight=EFFORT)])
