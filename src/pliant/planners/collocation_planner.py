"""Direct collocation with Ipopt [Zimmermann2021, comparison].

The variables are the controls and the positions of all steps. The implicit steps g(q_{k+1}, x_k,
u_k) = 0 are constraints. The Hessian is the Gauss-Newton Hessian of the objective, which works best
for position goals [Zimmermann2021]. Velocity goals need the curvature of the dynamics as well
(`second_order`); without it the method does not converge.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array, StepError, counted, finite_array, require_kind
from pliant.dynamics.implicit_model import ImplicitModel
from pliant.dynamics.residual import SparsityPattern
from pliant.planners.casadi_callbacks import CONVERGED, ipopt_solver, load_casadi, numpy_callback
from pliant.planners.evaluation import Evaluation, evaluate
from pliant.planners.options import with_progress
from pliant.planners.plan_result import Iteration, Options, Plan, SearchLog
from pliant.planners.transcription import NonlinearProgram
from pliant.planners.trust_region_search import missed_goal_text
from pliant.problem import Problem

# With a larger relative difference, the program and the simulation have different motions.
MAX_REPLAY_GAP = 1e-3


@with_progress
def collocation(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    simulate_guess: bool = True,
    second_order: bool = False,
) -> Plan:
    """Plan by direct collocation with Ipopt.

    Parameters
    ----------
    problem, guess, options : as in `plan`
    simulate_guess : start from the simulated guess; False starts from the initial state
    second_order : add the curvature of the dynamics to the Hessian

    Iterates need not satisfy the dynamics: `history` has the program's cost, and the largest
    residual force [N] as `infeasibility`. The plan is the simulation of the final controls.
    notes["replay gap"] is the relative difference of the two costs. Raises InputError for models
    that are not implicit, and MissingExtra without casadi.
    """
    require_kind(
        "The model of collocation",
        problem.model,
        ImplicitModel,
        "collocation needs an implicit rule (ImplicitEuler, BDF2 or Quasistatic); plan with "
        "gauss_newton or ddp",
    )
    casadi = load_casadi("Collocation")
    log = SearchLog(problem=problem, method="collocation", options=options or Options())
    program = NonlinearProgram(problem=problem, second_order=second_order)
    w = _initial_point(program, log, guess, simulate_guess)
    run = IpoptRun(
        program=program,
        log=log,
        w=w,
        force_scale=program.force_scale(w),
        cost_scale=program.cost_scale(w),
    )
    if not log.history:
        run.record(w, float(np.abs(program.forces(w)[0]).max()))
    status = (
        run.solve(casadi)
        if log.iterations_done < log.options.iterations
        else "Maximum_Iterations_Exceeded"
    )
    return _finish(run, status)


def _initial_point(
    program: "NonlinearProgram", log: SearchLog, guess: Array | None, simulate: bool
) -> Array:
    problem = program.problem
    if simulate or log.options.resume:
        now = log.evaluate_guess(guess)
        return program.pack(now.states[1:, : program.n_dofs], now.controls)
    shape = (problem.steps, problem.model.n_controls)
    controls = (
        problem.guess()
        if guess is None
        else finite_array("The guess of the controls", guess, shape)
    )
    still = np.tile(problem.initial_state, (problem.steps + 1, 1))
    problem.check_not_nan(still, controls)
    return program.pack(still[1:, : program.n_dofs], controls)


def _finish(run: "IpoptRun", status: str) -> Plan:
    """Simulate the final controls and return the plan. Raises StepError if nothing simulates."""
    program, problem, log, first = (
        run.program,
        run.program.problem,
        run.log,
        run.log.best,
    )
    cost, again = (
        program.value(run.w),
        evaluate(problem, np.clip(program.unpack(run.w)[2], *program.control_range)),
    )
    gap = (again.cost - cost) / max(abs(cost), 1e-9 * run.cost_scale)
    ok, text = _status(problem, again, status, abs(gap), log)
    runs = [] if again.failed else [again]
    # an unconverged iterate may be worse than the guess
    if first is not None and (not runs or not (ok or problem.constraint_rows)):
        runs.append(first)
    if not runs:
        raise StepError(
            f"The controls from collocation cannot be simulated ({again.failed}), and the guess "
            "was not simulated; give a guess that can be simulated, or a smaller time step."
        )
    log.best = min(runs, key=lambda now: (problem.limit_violation(now.controls) > 1e-6, now.cost))
    notes = {
        "nlp cost": cost,
        "ipopt status": status,
        "replay gap": gap,
        "force scale": run.force_scale,
    }
    return log.finish(ok, text, interrupted=isinstance(run.caught, KeyboardInterrupt), notes=notes)


def _status(
    problem: Problem, again: Evaluation, status: str, gap: float, log: SearchLog
) -> tuple[bool, str]:
    if status in CONVERGED and again.failed:
        return (
            False,
            f"converged, but the controls cannot be simulated ({again.failed}); give another "
            "guess, or a smaller time step",
        )
    if status in CONVERGED and problem.constraint_violation(again.states, again.controls) == np.inf:
        return False, "converged, but a constraint is not a number there; give another guess"
    if status in CONVERGED and gap > MAX_REPLAY_GAP:
        return False, (
            "converged to a motion that differs from the simulation (see notes['replay gap']): the "
            "same controls lead to another equilibrium branch; continue with gauss_newton from "
            "these controls"
        )
    if status in CONVERGED:
        return (
            True,
            "converged in "
            f"{counted(log.iterations_done, 'iteration')}{missed_goal_text(problem, again)}",
        )
    remedies = {
        "Maximum_Iterations_Exceeded": f"not converged in {log.options.iterations} "
        "iterations; allow more with Options(iterations=...)",
        "User_Requested_Stop": "interrupted; this is the better of the guess and the last iterate, "
        "continue it with resume",
        "Infeasible_Problem_Detected": "Ipopt finds no motion within the limits and constraints; "
        "widen them, or give another guess",
    }
    return False, remedies.get(
        status,
        f"Ipopt stopped with {status}; give another guess, or scale the weights of the terms",
    )


@dataclass(kw_only=True)
class IpoptRun:
    """One solve with Ipopt: the iterate, the scales, and an exception raised in a callback."""

    program: NonlinearProgram
    log: SearchLog
    w: Array
    force_scale: float  # [N] divides the residual forces
    cost_scale: float  # divides the cost
    started: bool = False
    caught: BaseException | None = None

    def record(self, w: Array, worst: float) -> None:
        """Add an iterate with its largest residual force [N] to the history."""
        log, options = self.log, self.log.options
        step = float(np.abs((w - self.w)[self.program.n_positions :]).max(initial=0.0))
        self.w = w
        log.history.append(
            Iteration(
                cost=self.program.value(w),
                step=step,
                regulariser=0.0,
                seconds=time.perf_counter() - log.start_time,
                infeasibility=worst,
            )
        )
        log.write_checkpoint(self.program.unpack(w)[2], None)  # the controls are not simulated
        options.report(
            f"planning ({log.method})",
            min(log.iterations_done, options.iterations),
            options.iterations,
        )

    def accepted(self, w: Array, g: Array) -> Array:
        """Record an iterate of Ipopt. Return 1 to stop the solver."""
        try:
            if self.started:  # the start is recorded already
                self.record(
                    w.copy(),
                    self.force_scale
                    * float(np.abs(g[: self.program.n_positions]).max(initial=0.0)),
                )
            self.started = True
        except BaseException as error:
            self.caught = error
        return np.array([float(self.caught is not None)])

    def solve(self, casadi: Any) -> str:
        """Run Ipopt, set `w` to the solution and return Ipopt's status."""
        options = self.log.options
        settings = {
            "max_iter": options.iterations - self.log.iterations_done,
            # relative to the start's cost and force, which may be far above those of the optimum
            "tol": 1e-2 * options.tolerance,
            "acceptable_tol": options.tolerance,
            "mu_init": 1e-5,  # the start is almost feasible
            "nlp_scaling_method": "none",
            # the default accepts pivots too small for matrices with a mostly zero diagonal
            "mumps_pivtol": 1e-2,
        }
        (lbx, ubx), (lbg, ubg) = self.program.bounds, self.program.constraint_bounds
        program, parts, references = self._functions(casadi)
        solver = ipopt_solver(casadi, "collocation", program, parts, settings)
        with self._interruptible():
            found = solver(x0=self.w, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
        del references  # casadi does not own the functions that it calls
        if isinstance(self.caught, KeyboardInterrupt):
            return "User_Requested_Stop"
        if self.caught is not None:
            raise self.caught
        self.w = np.asarray(found["x"]).ravel()
        return str(solver.stats()["return_status"])

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Store Ctrl-C in `caught`, which ends the solve. casadi would ignore the exception."""

        def stop(*_: Any) -> None:
            self.caught = self.caught or KeyboardInterrupt()

        if threading.current_thread() is not threading.main_thread():  # it gets no signals
            yield
            return
        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _functions(self, casadi: Any) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        """Return the casadi program, its derivatives and callback, and references to keep."""
        program, F, J, dense = (
            self.program,
            self.force_scale,
            self.cost_scale,
            casadi.Sparsity.dense,
        )
        n, m = program.size, len(program.constraint_bounds[0])
        x, one, many, none = dense(n, 1), dense(1, 1), dense(m, 1), dense(0, 1)
        jac, hess = (
            _sparsity(casadi, program.jacobian_entries, m, n),
            _sparsity(casadi, program.hessian_entries, n, n),
        )
        make = lambda name, ins, outs: numpy_callback(casadi, self, name, ins, outs)
        f, g = (
            (one, lambda w, *_: program.value(w) / J),
            (many, lambda w, *_: program.constraints(w, F)),
        )
        value, constraints = (
            make("value", {"x": x}, {"f": f}),
            make("constraints", {"x": x}, {"g": g}),
        )
        parts = {
            "grad_f": make(
                "nlp_grad_f",
                {"x": x, "p": none},
                {"f": f, "grad_f_x": (x, lambda w, p: program.gradient(w) / J)},
            ),
            "jac_g": make(
                "nlp_jac_g",
                {"x": x, "p": none},
                {"g": g, "jac_g_x": (jac, lambda w, p: program.jacobian(w, F))},
            ),
            "hess_lag": make(
                "nlp_hess_l",
                {"x": x, "p": none, "lam_f": one, "lam_g": many},
                {
                    "hess": (
                        hess,
                        lambda w, p, lam_f, lam_g: program.hessian(w, lam_f[0] / J, lam_g, F),
                    )
                },
            ),
            "iteration_callback": make(
                "accepted",
                {"x": x, "f": one, "g": many, "lam_x": x, "lam_g": many, "lam_p": none},
                {"ret": (one, lambda w, f, g, *_: self.accepted(w, g))},
            ),
        }
        w = casadi.MX.sym("w", n)
        return {"x": w, "f": value(w), "g": constraints(w)}, parts, [value, constraints]


def _sparsity(casadi: Any, where: SparsityPattern, n_rows: int, n_cols: int) -> Any:
    starts = np.concatenate([[0], np.cumsum(np.bincount(where.cols, minlength=n_cols))])
    return casadi.Sparsity(n_rows, n_cols, starts.tolist(), where.rows.tolist())
