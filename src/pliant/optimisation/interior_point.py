"""The interior-point method of Ipopt: objectives with constraints and bounds.

Ipopt runs in a thread of its own and asks the caller's thread for every evaluation. So it advances
one iteration at a time, and Ctrl-C and errors of the objective end it at once. A checkpoint is the
list of all evaluations: Ipopt repeats its iterations from them without a simulation, bit for bit.
"""

from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any, final

import numpy as np

from pliant.core import Array, require_positive
from pliant.optimisation.constrained_points import (
    ConstrainedPoint,
    derivatives_at,
    empty_point,
    values_at,
)
from pliant.optimisation.evaluator import Evaluator
from pliant.optimisation.methods import FAILED_START, FEASIBLE, Iterate, Stopping
from pliant.optimisation.states import OptimiserState
from pliant.planners.casadi_callbacks import CONVERGED, ipopt_solver, load_casadi, numpy_callback

WHY = {
    "Infeasible_Problem_Detected": "the constraints contradict each other here",
    "Search_Direction_Becomes_Too_Small": "no smaller step lowers the value",
    "Restoration_Failed": "no step lowers the violation of the constraints",
    "Invalid_Number_Detected": "every smaller step fails",
    "Error_In_Step_Computation": "no step lowers the value or the violation",
}
NAMES = ("z", "value", "constraints", "gradient", "jacobian")


@final
@dataclass(frozen=True, kw_only=True)
class InteriorPoint:
    """The interior-point method of Ipopt [Waechter and Biegler 2006], for constraints and bounds.

    Parameters
    ----------
    first_barrier : first barrier parameter; smaller ones suit a start close to the minimum
    memory : number of pairs of the limited-memory Hessian

    It needs casadi: pip install 'pliant[nlp]'. Raises InputError for values that are not positive,
    and MissingExtra without casadi.

    >>> from pliant.optimisation import InteriorPoint
    >>> InteriorPoint(first_barrier=1e-3).name
    'interior_point'
    """

    first_barrier: float = 0.1
    memory: int = 20

    def __post_init__(self) -> None:
        require_positive("The first barrier parameter", self.first_barrier, "")
        require_positive("The memory of the interior-point method", self.memory, "")

    @property
    def name(self) -> str:
        return "interior_point"

    @property
    def handles_constraints(self) -> bool:
        return True

    def optimiser(self, evaluator: Evaluator, stopping: Stopping, seed: int) -> "IpoptOptimiser":
        """Return the running method."""
        load_casadi("The method 'interior_point'")
        return IpoptOptimiser(method=self, evaluator=evaluator, stopping=stopping)


class Stopped(Exception):
    """The optimisation ended while Ipopt waited for an evaluation."""


@dataclass(kw_only=True, eq=False)
class IpoptOptimiser:
    """A running Ipopt, with all evaluations so far."""

    method: InteriorPoint
    evaluator: Evaluator
    stopping: Stopping
    iteration: int = 0
    points: dict[bytes, ConstrainedPoint] = field(default_factory=dict)  # by the bytes of z
    complete: set[bytes] = field(default_factory=set)  # those with derivatives
    thread: Thread | None = None
    caught: BaseException | None = None  # in the thread

    def __post_init__(self) -> None:
        self.asked: SimpleQueue[Any] = SimpleQueue()  # what the thread asks or reports
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.z = self.evaluator.start

    def first(self) -> Iterate:
        """Return the start."""
        found = self._point(self.z, True)
        if found.failed:
            return Iterate(z=self.z, value=np.inf, failed=found.failed, finished=FAILED_START)
        return self._iterate(found, np.zeros(self.evaluator.m), 0.0)

    def iterate(self) -> Iterate:
        """Return the next iterate of Ipopt."""
        found = self._advance()
        self.iteration += 1
        return found

    def _advance(self) -> Iterate:
        """Let Ipopt run to its next iterate, and evaluate what it asks for."""
        if self.thread is None:
            self.thread = Thread(target=self._solve, daemon=True)
            self.thread.start()
            self._serve()  # the start, moved inside the bounds
        self.answers.put(None)
        what, z, more = self._serve()
        if what == "ended":
            self.thread.join()
            if self.caught is not None:
                raise self.caught
            return self._end(str(more))
        step, self.z = float(np.abs(z - self.z).max()), z
        return self._iterate(self._point(z, False), more, step)

    def _serve(self) -> tuple[str, Array, Any]:
        """Answer the questions of the thread until it reports an iterate or its end."""
        while True:
            what, z, more = self.asked.get()
            if what != "point":
                return what, z, more
            self.answers.put(self._point(z, more))

    def _point(self, z: Array, derivatives: bool) -> ConstrainedPoint:
        """Return the values, or the derivatives too, at z: stored ones if there are any."""
        key = z.tobytes()
        known = self.points.get(key)
        if known is None or (derivatives and not known.failed and key not in self.complete):
            evaluate = derivatives_at if derivatives else values_at
            self.points[key] = evaluate(self.evaluator, z)
            self.complete |= {key} if derivatives else set()
        return self.points[key]

    def _iterate(self, point: ConstrainedPoint, multipliers: Array, step: float) -> Iterate:
        norm = np.nan
        if point.z.tobytes() in self.complete:
            g = point.gradient + point.jacobian.T @ multipliers
            norm = float(np.abs(self.evaluator.projected_gradient(point.z, g)).max())
        return Iterate(
            z=point.z,
            value=point.value,
            gradient_norm=norm,
            step=step,
            violation=self.evaluator.violation(point.constraints),
            failed=point.failed,
        )

    def _end(self, status: str) -> Iterate:
        point = self._point(self.z, False)
        violation = self.evaluator.violation(point.constraints)
        converged = status in CONVERGED and violation <= FEASIBLE
        text = "the optimality conditions hold" if converged else WHY.get(status, status)
        return Iterate(
            z=self.z,
            value=point.value,
            violation=violation,
            failed=point.failed,
            finished=text,
            converged=converged,
            notes={"ipopt status": status},
        )

    # In the thread of Ipopt

    def _ask(self, z: Array, derivatives: bool) -> ConstrainedPoint:
        self.asked.put(("point", z.copy(), derivatives))
        found: ConstrainedPoint = self._answer()
        return found

    def _answer(self) -> Any:
        answer = self.answers.get()
        if isinstance(answer, Stopped):
            raise answer
        return answer

    def _accepted(self, z: Array, multipliers: Array) -> Array:
        """Report an iterate and wait."""
        self.asked.put(("iterate", z.copy(), multipliers.copy()))
        self._answer()
        return np.zeros(1)

    def _solve(self) -> None:
        """Run Ipopt to its end."""
        status = "stopped"
        try:
            status = self._run(load_casadi("The method 'interior_point'"))
        except BaseException as error:
            self.caught = self.caught or error
        self.asked.put(("ended", self.z, status))

    def _run(self, casadi: Any) -> str:
        program, parts, kept = self._functions(casadi)
        settings = {
            "max_iter": 10**9,
            "tol": self.stopping.tolerance,
            # the value may be less accurate than the tolerance
            "acceptable_tol": 100.0 * self.stopping.tolerance,
            "hessian_approximation": "limited-memory",
            "limited_memory_max_history": self.method.memory,
            "mu_init": self.method.first_barrier,
        }
        solver = ipopt_solver(casadi, "interior_point", program, parts, settings)
        (lbx, ubx), (lbg, ubg) = self.evaluator.bounds, self.evaluator.constraint_bounds
        limits = {"lbg": lbg, "ubg": ubg} if self.evaluator.m else {}
        solver(x0=self.evaluator.start, lbx=lbx, ubx=ubx, **limits)
        del kept  # casadi does not own the functions that it calls
        return str(solver.stats()["return_status"])

    def _functions(self, casadi: Any) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        """Return the casadi program, its derivatives and callback, and references to keep."""
        n, m, dense = self.evaluator.n, self.evaluator.m, casadi.Sparsity.dense
        x, one, many, none, jac = dense(n, 1), dense(1, 1), dense(m, 1), dense(0, 1), dense(m, n)
        make = lambda name, ins, outs: numpy_callback(casadi, self, name, ins, outs)
        f = (one, lambda z, *_: self._ask(z, False).value)
        g = (many, lambda z, *_: self._numbers("constraints", z))
        grad = (x, lambda z, *_: self._numbers("gradient", z))
        rows = (jac, lambda z, *_: np.ravel(np.transpose(self._numbers("jacobian", z))))
        seen = {"x": x, "f": one, "g": many, "lam_x": x, "lam_g": many, "lam_p": none}
        value, constraints = make("value", {"x": x}, {"f": f}), make("rows", {"x": x}, {"g": g})
        ret = (one, lambda z, f, g, lam_x, lam_g, *_: self._accepted(z, lam_g))
        gradient = make("nlp_grad_f", {"x": x, "p": none}, {"f": f, "grad_f_x": grad})
        jacobian = make("nlp_jac_g", {"x": x, "p": none}, {"g": g, "jac_g_x": rows})
        parts = {
            "grad_f": gradient,
            "iteration_callback": make("accepted", seen, {"ret": ret}),
            **({"jac_g": jacobian} if m else {}),
        }
        w = casadi.MX.sym("w", n)
        program = {"x": w, "f": value(w), **({"g": constraints(w)} if m else {})}
        return program, parts, [value, constraints, *parts.values()]

    def _numbers(self, name: str, z: Array) -> Any:
        """Return constraints or a derivative at z, NaN if the simulation fails."""
        found = self._ask(z, name != "constraints")
        return np.nan if found.failed else getattr(found, name)

    def close(self) -> None:
        """End the thread."""
        if self.thread is not None and self.thread.is_alive():
            self.caught = Stopped()
            while self.thread.is_alive():
                self.answers.put(Stopped())
                self.thread.join(timeout=0.01)
        self.thread = None

    # Checkpoints

    def state(self) -> OptimiserState:
        """Return all evaluations."""
        points = list(self.points.values())
        n, m = self.evaluator.n, self.evaluator.m
        shapes = {"z": (n,), "value": (), "constraints": (m,), "gradient": (n,), "jacobian": (m, n)}
        arrays = {}
        for name, shape in shapes.items():
            made = np.zeros((len(points), *shape))
            for k, point in enumerate(points):
                made[k] = 0.0 if point.failed and name != "z" else getattr(point, name)
            arrays[name] = made
        arrays["failed"] = np.array([bool(point.failed) for point in points], np.int64)
        arrays["complete"] = np.array([key in self.complete for key in self.points], np.int64)
        return OptimiserState(
            arrays=arrays, values={"iteration": self.iteration}, growing=tuple(arrays)
        )

    def restore(self, state: OptimiserState) -> None:
        """Repeat the iterations from their evaluations."""
        arrays = state.arrays
        for k, z in enumerate(arrays["z"]):
            key, failed = z.tobytes(), bool(arrays["failed"][k])
            empty = empty_point(self.evaluator, z.copy(), "it failed before" if failed else "")
            parts: dict[str, Any] = {
                name: np.array(arrays[name][k]) for name in NAMES if name != "value"
            }
            found = ConstrainedPoint(
                value=float(arrays["value"][k]), residual_factor=empty.residual_factor, **parts
            )
            self.points[key] = empty if failed else found
            self.complete |= {key} if arrays["complete"][k] else set()
        while self.iteration < int(state.values["iteration"]):
            if self.iterate().finished:
                break
