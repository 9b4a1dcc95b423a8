"""Steps of linked rigid bodies in potential flow, with interpolated or exact added mass, and their
Jacobians."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.core import Array, InputError, Status, StepBatch, StepError
from pliant.surrogate import SampleError
from pliant.surrogate.cell_tables import FOUND, MISSING, OUTSIDE
from pliant.swimming import jacobian_kernels, step_kernels
from pliant.swimming.added_mass import ConstantAddedMass, ExactAddedMass, InterpolatedAddedMass
from pliant.swimming.link_kernels import Chain
from pliant.swimming.linked_robot import LinkedRobot

METHODS = {"euler": step_kernels.EULER, "rk4": step_kernels.RK4}
MIN_PARALLEL_ROWS = 8  # a step takes about 20 us, as long as starting the threads
CONVERGED = Status()
AddedMassModel = ExactAddedMass | InterpolatedAddedMass | ConstantAddedMass
Outcomes = tuple[Array, Array]  # of lookups (b,), and the angles (b, n) of the last ones


@dataclass(frozen=True, kw_only=True, eq=False)
class SwimmerSteps:
    """The time steps of a swimmer. A state is the effector positions (e,) now and one step ago, and
    the core: root, quaternion, joint angles and momenta."""

    robot: LinkedRobot
    chain: Chain
    added_mass: AddedMassModel
    dt: float  # [s]
    kind: int  # one of METHODS

    @cached_property
    def n_points(self) -> int:
        """The number e of coordinates of all effectors."""
        return 3 * len(self.robot.effector_names)

    @cached_property
    def stages(self) -> int:
        """The number of values of the added mass in a step."""
        return int(step_kernels.n_stages(self.kind))

    def known(self, x: Array, u: Array) -> Array | None:
        """Return the state after a step that needs no new cell; None if it does, or fails. It has
        the bits of `many`, without the work for many rows."""
        mass, e = self.added_mass, self.n_points
        assert not isinstance(mass, ExactAddedMass)
        core = x[None, 2 * e :]
        out, points = np.empty(core.shape), np.empty((1, e))
        found, _ = step_kernels.step_rows(
            self.kind, core, u[None], self.dt, mass.cells(), self.chain, out, points
        )
        if found[0] != FOUND:
            return None
        if isinstance(mass, InterpolatedAddedMass):
            mass.queries += self.stages
        return np.concatenate([points[0], x[:e], out[0]])

    def many(self, x: Array, u: Array) -> StepBatch:
        """Step states (b, n_state) under controls (b, n_controls) in parallel."""
        mass, e = self.added_mass, self.n_points
        if isinstance(mass, ExactAddedMass):
            pairs = [self.exact(one, control) for one, control in zip(x, u, strict=True)]
            return StepBatch(np.array([new for new, _ in pairs]), tuple(s for _, s in pairs))
        cores = np.ascontiguousarray(x[:, 2 * e :])
        out, points = cores.copy(), x[:, :e].copy()
        found, angles, reasons = self._run_batch(cores, u, out, points)
        failed = found != FOUND
        out[failed], points[failed] = cores[failed], x[failed, :e]
        if isinstance(mass, InterpolatedAddedMass):
            mass.queries += len(x) * self.stages
        statuses = tuple(
            Status(ok=False, text=self._failure(code, theta, reasons.get(i, "")))
            if code != FOUND
            else CONVERGED
            for i, (code, theta) in enumerate(zip(found, angles, strict=True))
        )
        previous = np.where(failed[:, None], x[:, e : 2 * e], x[:, :e])
        return StepBatch(np.hstack([points, previous, out]), statuses)

    def _run(self, cores: Array, u: Array, out: Array, points: Array) -> Outcomes:
        mass = self.added_mass
        assert not isinstance(mass, ExactAddedMass)
        few = len(cores) < MIN_PARALLEL_ROWS
        kernel = step_kernels.step_rows if few else step_kernels.step_batch
        return kernel(self.kind, cores, u, self.dt, mass.cells(), self.chain, out, points)

    def _run_batch(
        self, cores: Array, u: Array, out: Array, points: Array
    ) -> tuple[Array, Array, dict[int, str]]:
        """Run a batch until no cell is missing. Return outcomes (b,), the angles (b, n) of the last
        lookups, and the reasons why exact values are missing, by row."""
        todo = np.arange(len(cores))
        found = np.zeros(len(cores), np.int64)
        angles = np.zeros((len(cores), self.robot.n_angles))
        reasons: dict[int, str] = {}
        while todo.size:
            new, at = out[todo], points[todo]
            found[todo], angles[todo] = self._run(cores[todo], u[todo], new, at)
            out[todo], points[todo] = new, at
            todo = todo[found[todo] == MISSING]
            todo = self._add_cells(todo, angles, reasons)
        return found, angles, reasons

    def _add_cells(self, rows: Array, angles: Array, reasons: dict[int, str]) -> Array:
        """Add the cells of the angles of some rows. Return the rows that can go on; the others get
        a reason."""
        mass = self.added_mass
        assert not isinstance(mass, ExactAddedMass)
        try:
            mass.require(angles[rows])
            return rows
        except SampleError:
            pass  # one of them has no value: find out which
        good = []
        for i in rows:
            try:
                mass.require(angles[i : i + 1])
                good.append(i)
            except SampleError as error:
                reasons[int(i)] = str(error)
        return np.array(good, int)

    def _failure(self, code: int, angles: Array, reason: str) -> str:
        if code == OUTSIDE and np.isfinite(angles).all():
            lower, upper = self.robot.angle_limits
            k = int(np.argmax(np.maximum(lower - angles, angles - upper)))
            name = list(self.robot.hinges)[k]
            return (
                f"the hinge '{name}' is at {angles[k]:.3g} rad, far beyond its limits "
                f"{lower[k]:g} to {upper[k]:g} rad; use smaller torques, a smaller time step, or "
                "stiffer stops"
            )
        if code == MISSING:
            return reason
        return "the state is not finite any more; use a smaller time step or smaller torques"

    def exact(self, x: Array, u: Array) -> tuple[Array, Status]:
        """Step a state (n_state,) with the exact added mass. Return the old state if it fails."""
        e, n = self.n_points, self.robot.n_angles
        y = x[2 * e :].copy()
        stage, rates = np.empty(len(y)), np.empty((4, len(y)))
        try:
            for s in range(self.stages):
                step_kernels.stage_state(s, y, rates, self.dt, stage)
                rows = self.added_mass.rows(stage[7 : 7 + n].copy())
                step_kernels.evaluate_stage(
                    self.kind, stage, u, self.dt, rows[0], rows[1:], self.chain, rates[s]
                )
        except (SampleError, InputError) as error:  # links touch
            return x, Status(ok=False, text=str(error))
        out, points = np.empty(len(y)), np.empty(e)
        step_kernels.finish_step(self.kind, y, rates, self.dt, self.chain, out, points)
        if not np.all(np.isfinite(out)):
            text = self._failure(step_kernels.NOT_FINITE, out[7 : 7 + n], "")
            return x, Status(ok=False, text=text)
        return np.concatenate([points, x[:e], out]), Status()

    # Derivatives

    def jacobians(self, x: Array, u: Array) -> Array:
        """Return the Jacobians (b, n_state, n_state + n_controls) of steps from states
        (b, n_state). Raises StepError if one of the steps fails."""
        e, size, m = self.n_points, x.shape[1], u.shape[1]
        c = size - 2 * e
        small = np.empty((len(x), c + e, c + m))
        if isinstance(self.added_mass, ExactAddedMass):
            for y, v, out in zip(x[:, 2 * e :], u, small, strict=True):
                self._exact_jacobian(y, v, out)
        else:
            self._fill_jacobians(x, u, small)
        full = np.zeros((len(x), size, size + m))
        full[:, :e, 2 * e :] = small[:, c:]
        full[:, e : 2 * e, :e] = np.eye(e)
        full[:, 2 * e :, 2 * e :] = small[:, :c]
        return full

    def _fill_jacobians(self, x: Array, u: Array, out: Array) -> None:
        """Fill the small Jacobians of steps with the interpolated added mass."""
        mass, cores = self.added_mass, np.ascontiguousarray(x[:, 2 * self.n_points :])
        assert not isinstance(mass, ExactAddedMass)
        run: Callable[[], Array] = lambda: jacobian_kernels.batch_jacobians(
            self.kind, cores, u, self.dt, mass.cells(second=True), self.chain, out
        )
        if np.all(run() == FOUND):
            return
        failed = [s.text for s in self.many(x, u).statuses if not s.ok]  # adds the cells
        if failed:
            raise StepError(f"A step without result has no derivative: {failed[0]}")
        run()

    def _exact_jacobian(self, y: Array, u: Array, out: Array) -> None:
        n = self.robot.n_angles
        stage, rates = np.empty(len(y)), np.empty((4, len(y)))
        theta, all_rows = np.empty((self.stages, n)), []
        for s in range(self.stages):
            step_kernels.stage_state(s, y, rates, self.dt, stage)
            theta[s] = stage[7 : 7 + n]
            rows = self.added_mass.rows(theta[s].copy(), second=True)
            all_rows.append(rows)
            step_kernels.evaluate_stage(
                self.kind, stage, u, self.dt, rows[0], rows[1 : 1 + n], self.chain, rates[s]
            )
        jacobian_kernels.step_jacobian(
            self.kind, y, u, self.dt, theta, np.array(all_rows), self.chain, out
        )
