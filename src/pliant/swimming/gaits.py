"""Motion of a swimming robot whose joint angles are prescribed: the shape moves the fluid, and
momentum conservation moves the root."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pliant.argument_checks import check_steps
from pliant.core import Array, InputError, finite_array, require_positive
from pliant.swimming.momentum_kernels import momentum_rate
from pliant.swimming.swimmer_model import SwimmerModel


class AnglePath(Protocol):
    """Joint angles and their rates as functions of time."""

    def angles(self, time: float) -> Array: ...  # (n,) [rad]
    def rates(self, time: float) -> Array: ...  # (n,) [rad/s]


@dataclass(frozen=True, kw_only=True, eq=False)
class SineAngles:
    """The joint angles offset + s(t) amplitude sin(2 pi frequency t + phase), with s(t) rising
    smoothly from 0 to 1 within `ramp` [s].

    Parameters
    ----------
    amplitude, phase, offset : (n,) [rad]
    frequency : [Hz]; a negative one runs the gait backwards
    ramp : [s]; 0 starts at full amplitude
    """

    amplitude: ArrayLike
    frequency: float
    phase: ArrayLike
    offset: ArrayLike = ()
    ramp: float = 0.0

    def __post_init__(self) -> None:
        amplitude = finite_array("The amplitude of a gait", self.amplitude, (None,), "rad")
        n = len(amplitude)
        offset = self.offset if np.size(self.offset) else np.zeros(n)
        fields = {
            "amplitude": amplitude,
            "phase": finite_array("The phase of a gait", self.phase, (n,), "rad"),
            "offset": finite_array("The offset of a gait", offset, (n,), "rad"),
            "frequency": float(finite_array("The frequency of a gait", self.frequency, (), "Hz")),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # a frozen dataclass that converts lists
        if self.ramp != 0.0:
            require_positive("The ramp of a gait", self.ramp, "s")

    def angles(self, time: float) -> Array:
        scale, _ = self._scale(time)
        return self.offset + scale * self._wave(time)[0]  # type: ignore[operator]

    def rates(self, time: float) -> Array:
        (scale, scale_rate), (wave, wave_rate) = self._scale(time), self._wave(time)
        return scale_rate * wave + scale * wave_rate

    def _wave(self, time: float) -> tuple[Array, Array]:
        speed = 2.0 * np.pi * self.frequency
        angle = speed * time + self.phase  # type: ignore[operator]
        return self.amplitude * np.sin(angle), speed * self.amplitude * np.cos(angle)  # type: ignore[operator]

    def _scale(self, time: float) -> tuple[float, float]:
        """Return s and its rate: the quintic polynomial with s' = s'' = 0 at both ends."""
        if self.ramp == 0.0 or time >= self.ramp:
            return 1.0, 0.0
        t = max(time, 0.0) / self.ramp
        return t**3 * (10.0 - 15.0 * t + 6.0 * t * t), 30.0 * t * t * (1.0 - t) ** 2 / self.ramp


@dataclass(frozen=True, kw_only=True, eq=False)
class PrescribedMotion:
    """The states and the joint torques of a motion with prescribed joint angles."""

    states: Array  # (steps + 1, n_state)
    torques: Array  # (steps, n) [N m] mean over each step, for all hinges


def prescribed_motion(model: SwimmerModel, path: AnglePath, *, steps: int) -> PrescribedMotion:
    """Return the motion of a swimmer that starts without momentum and follows joint angles.

    The root's velocity xi_r = -M_rr^-1 M_ra theta' keeps the total momentum of root, links and
    fluid at zero. The pose is integrated by the classical fourth-order rule. The torques follow
    from the momentum equations of the joints. Raises InputError with gravity on a robot that is not
    neutrally buoyant, because its momentum changes.
    """
    check_steps(steps)
    chain, h, n = model.chain, model.dt, model.robot.n_angles
    if np.any(chain.gravity) and not (
        np.allclose(chain.mass, chain.displaced, atol=0.0)
        and np.allclose(chain.centre, chain.centroid)
    ):
        raise InputError(
            "A prescribed gait keeps the momentum at zero, but the weight of this robot changes "
            "it. Set gravity to zero, or make every link neutrally buoyant."
        )
    core = np.concatenate([np.zeros(3), [1.0, 0.0, 0.0, 0.0], path.angles(0.0)])
    states, torques = [_state(model, path, core, 0.0)], []
    for k in range(steps):
        core = _advance(model, path, core, k * h)
        states.append(_state(model, path, core, (k + 1) * h))
        middle = 0.5 * (states[-2] + states[-1])[2 * model.space.n_dofs :]
        middle[7 : 7 + n] = path.angles((k + 0.5) * h)
        torques.append(
            (states[-1] - states[-2])[-n:] / h - _passive_torques(model, path, middle, k + 0.5)
        )
    out = np.array(states)
    e = model.space.n_dofs
    out[1:, e : 2 * e] = out[:-1, :e]
    return PrescribedMotion(states=out, torques=np.array(torques))


def _velocities(model: SwimmerModel, path: AnglePath, time: float) -> tuple[Array, Array]:
    """Return the velocities (6 + n,) without momentum of the root, and the mass matrix."""
    M, rates = model.mass_matrix(path.angles(time)), path.rates(time)
    return np.concatenate([-np.linalg.solve(M[:6, :6], M[:6, 6:] @ rates), rates]), M


def _state(model: SwimmerModel, path: AnglePath, core: Array, time: float) -> Array:
    xi, _ = _velocities(model, path, time)
    return model.state(
        root=core[:3], orientation=core[3:7], angles=path.angles(time), velocities=xi
    )


def _advance(model: SwimmerModel, path: AnglePath, core: Array, time: float) -> Array:
    """Return root, quaternion and angles after one step."""
    h = model.dt

    def rate(at: Array, t: float) -> Array:
        return model.configuration_rate(at, _velocities(model, path, t)[0])

    k1 = rate(core, time)
    k2 = rate(core + 0.5 * h * k1, time + 0.5 * h)
    k3 = rate(core + 0.5 * h * k2, time + 0.5 * h)
    k4 = rate(core + h * k3, time + h)
    out = core + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    out[3:7] /= np.linalg.norm(out[3:7])
    out[7:] = path.angles(time + h)
    return out


def _passive_torques(model: SwimmerModel, path: AnglePath, core: Array, step: float) -> Array:
    """Return the rate of the joint momenta (n,) [N m] without motors, in the middle of a step."""
    xi, M = _velocities(model, path, step * model.dt)
    y = np.concatenate([core[: 7 + model.robot.n_angles], M @ xi])
    rows = model.added_mass.rows(y[7 : 7 + model.robot.n_angles].copy())
    dP, velocities = np.zeros(len(xi)), np.zeros(len(xi))
    u = np.zeros(model.n_controls)
    momentum_rate(y, u, rows[0], rows[1:], model.chain, dP, velocities)
    return dP[6:]
