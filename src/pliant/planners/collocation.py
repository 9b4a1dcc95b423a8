"""Direct collocation, the last comparison of paper 003: the positions of all steps are variables
beside the controls, and the implicit steps g(q_{k+1}, x_k, u_k) = 0 are constraints that Ipopt
closes while it lowers the cost.

Every part of a state is a linear function of the last positions, so states are no variables, and
what a term sees is linear in them. The Hessian is the objective's by Gauss-Newton, which paper 003
found to work best; so it does where goals are places. With goals on velocities it does not
converge, and the curvature of the dynamics must be in it as well (`second_order`).
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array, MissingExtra, StepError, finite_array, require_kind
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.residual import Entries
from pliant.planners.options import reported
from pliant.planners.plan import Evaluation, Iteration, Journal, Options, Plan, evaluate
from pliant.planners.shooting import missed
from pliant.planners.transcription import Program
from pliant.problem import Problem

CONVERGED = ("Solve_Succeeded", "Solved_To_Acceptable_Level")
# relative gap between the program's cost and the replayed one, above which they are not the same
# motion
BRANCH = 1e-3


@reported
def collocation(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    simulate_guess: bool = True,
    second_order: bool = False,
) -> Plan:
    """Plan by direct collocation with Ipopt; with `second_order` its Hessian holds the curvature of
    the dynamics as well. It starts from the guess simulated or, without `simulate_guess`, from the
    body standing still under it. Iterates are no runs: `history` holds the program's cost and as
    `infeasibility` the largest residual force [N]. The plan is the found controls simulated anew;
    its notes compare the two costs ("replay gap", relative to the program's)."""
    require_kind(
        "The model of collocation",
        problem.model,
        Implicit,
        "collocation takes ImplicitEuler, BDF2 and Quasistatic, whose steps "
        "are equations of positions; plan with gauss_newton or ddp",
    )
    casadi = _casadi()
    journal = Journal(problem=problem, method="collocation", options=options or Options())
    program = Program(problem=problem, second_order=second_order)
    w = _first(program, journal, guess, simulate_guess)
    run = Run(
        program=program,
        journal=journal,
        w=w,
        force_scale=program.force_scale(w),
        cost_scale=program.cost_scale(w),
    )
    if not journal.history:
        run.note(w, float(np.abs(program.forces(w)[0]).max()))
    status = (
        run.solve(casadi)
        if journal.done < journal.options.iterations
        else "Maximum_Iterations_Exceeded"
    )
    return _finish(run, status)


def _casadi() -> Any:
    try:
        import casadi
    except ImportError as error:
        raise MissingExtra(
            "Collocation needs casadi with Ipopt: pip install 'pliant[nlp]'."
        ) from error
    return casadi


def _first(program: "Program", journal: Journal, guess: Array | None, simulate: bool) -> Array:
    problem = program.problem
    if simulate or journal.options.resume:
        now = journal.first(guess)
        return program.pack(now.states[1:, : program.n_dofs], now.controls)
    shape = (problem.steps, problem.model.n_controls)
    controls = (
        problem.guess()
        if guess is None
        else finite_array("The guess of the controls", guess, shape)
    )
    still = np.tile(problem.start, (problem.steps + 1, 1))
    problem.check_not_nan(still, controls)
    return program.pack(still[1:, : program.n_dofs], controls)


def _finish(run: "Run", status: str) -> Plan:
    """The found controls simulated anew, and what to say of them."""
    program, problem, journal, first = (
        run.program,
        run.program.problem,
        run.journal,
        run.journal.best,
    )
    cost, again = (
        program.value(run.w),
        evaluate(problem, np.clip(program.unpack(run.w)[2], *program.control_bounds)),
    )
    gap = (again.cost - cost) / max(abs(cost), 1e-9 * run.cost_scale)
    ok, text = _verdict(problem, again, status, abs(gap), journal)
    runs = [] if again.failed else [again]
    if first is not None and (
        not runs or not (ok or problem.watches)
    ):  # an iterate on the way may be worse than the guess
        runs.append(first)
    if not runs:
        raise StepError(
            f"What collocation found cannot be simulated ({again.failed}), and the guess was "
            "not; give a guess that can be simulated, or a smaller time step."
        )
    journal.best = min(runs, key=lambda now: (problem.excess(now.controls) > 1e-6, now.cost))
    notes = {
        "nlp cost": cost,
        "ipopt status": status,
        "replay gap": gap,
        "force scale": run.force_scale,
    }
    return journal.finish(
        ok, text, interrupted=isinstance(run.caught, KeyboardInterrupt), notes=notes
    )


def _verdict(
    problem: Problem, again: Evaluation, status: str, gap: float, journal: Journal
) -> tuple[bool, str]:
    if status in CONVERGED and again.failed:
        return (
            False,
            f"converged, but what it found cannot be simulated ({again.failed}); give another "
            "guess, or a smaller time step",
        )
    if status in CONVERGED and problem.violation(again.states, again.controls) == np.inf:
        return False, "converged, but a constraint is not a number there; give another guess"
    if status in CONVERGED and gap > BRANCH:
        return False, (
            "converged to a motion that the simulation does not follow (see notes['replay "
            "gap']): from the same controls it takes another branch; go on with gauss_newton "
            "from these controls"
        )
    if status in CONVERGED:
        return True, f"converged in {journal.done} iterations{missed(problem, again)}"
    remedies = {
        "Maximum_Iterations_Exceeded": f"not converged in {journal.options.iterations} "
        "iterations; allow more with Options(iterations=...)",
        "User_Requested_Stop": "interrupted; these are the controls so far or the guess, "
        "whichever costs less; go on with resume",
        "Infeasible_Problem_Detected": "Ipopt finds no motion within the limits and constraints; "
        "widen them, or give another guess",
    }
    return False, remedies.get(
        status,
        f"Ipopt stopped with {status}; give another guess, or scale the weights of the terms",
    )


@dataclass(kw_only=True)
class Run:
    """One solve: where it is, its scales, and what was thrown inside Ipopt's calls, which cannot
    pass through them."""

    program: Program
    journal: Journal
    w: Array
    force_scale: float  # [N] the constraints are residual forces over this
    cost_scale: float  # the objective is the cost over this
    started: bool = False
    caught: BaseException | None = None

    def note(self, w: Array, worst: float) -> None:
        """An iterate that Ipopt accepted, with its largest residual force [N]."""
        journal, options = self.journal, self.journal.options
        step = float(np.abs((w - self.w)[self.program.n_positions :]).max(initial=0.0))
        self.w = w
        journal.history.append(
            Iteration(
                cost=self.program.value(w),
                step=step,
                regulariser=0.0,
                seconds=time.perf_counter() - journal.began,
                infeasibility=worst,
            )
        )
        journal.write(
            self.program.unpack(w)[2], None
        )  # no run: the simulation may cost something else
        options.report(
            f"planning ({journal.method})",
            min(journal.done, options.iterations),
            options.iterations,
        )

    def accepted(self, w: Array, g: Array) -> Array:
        """What Ipopt's iteration callback does: 1 stops it."""
        try:
            if self.started:  # the start is noted already
                self.note(
                    w.copy(),
                    self.force_scale
                    * float(np.abs(g[: self.program.n_positions]).max(initial=0.0)),
                )
            self.started = True
        except BaseException as error:
            self.caught = error
        return np.array([float(self.caught is not None)])

    def solve(self, casadi: Any) -> str:
        """Ipopt's word for how it ended; `w` is where."""
        options = self.journal.options
        settings = {
            "print_level": 0,
            "sb": "yes",
            "max_iter": options.iterations - self.journal.done,
            "tol": 1e-2
            * options.tolerance,  # of the start's cost and force; the optimum may be far below
            "acceptable_tol": options.tolerance,
            "mu_init": 1e-5,  # a run is near feasible, and should not be led away from its limits
            "nlp_scaling_method": "none",
            "bound_relax_factor": 0.0,
            # its default takes pivots too small for these matrices, most of whose diagonal is zero
            "mumps_pivtol": 1e-2,
        }
        (lbx, ubx), (lbg, ubg) = self.program.bounds, self.program.constraint_bounds
        program, parts, kept = self._functions(casadi)
        solver = casadi.nlpsol(
            "collocation",
            "ipopt",
            program,
            {
                **parts,
                "print_time": False,
                "calc_lam_p": False,
                "no_nlp_grad": True,
                "error_on_fail": False,
                "show_eval_warnings": False,
                "ipopt": settings,
            },
        )
        with self._interruptible():
            found = solver(x0=self.w, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
        del kept  # casadi does not own the functions it calls
        if isinstance(self.caught, KeyboardInterrupt):
            return "User_Requested_Stop"
        if self.caught is not None:
            raise self.caught
        self.w = np.asarray(found["x"]).ravel()
        return str(solver.stats()["return_status"])

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Ctrl-C is kept in `caught`, which ends the solve: casadi would swallow a
        KeyboardInterrupt between two of our calls."""

        def stop(*_: Any) -> None:
            self.caught = self.caught or KeyboardInterrupt()

        if (
            threading.current_thread() is not threading.main_thread()
        ):  # only there can signals be handled, and only there they arrive
            yield
            return
        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _functions(self, casadi: Any) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        """(the program, its derivatives and the iteration callback, what must be kept alive) as
        casadi knows them."""
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
        make = lambda name, ins, outs: _callback(casadi, self, name, ins, outs)
        f, g = (
            (one, lambda w, *_: program.value(w) / J),
            (many, lambda w, *_: program.constraints(w, F)),
        )
        value, hold = make("value", {"x": x}, {"f": f}), make("hold", {"x": x}, {"g": g})
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
        return {"x": w, "f": value(w), "g": hold(w)}, parts, [value, hold]


def _sparsity(casadi: Any, where: Entries, n_rows: int, n_cols: int) -> Any:
    starts = np.concatenate([[0], np.cumsum(np.bincount(where.cols, minlength=n_cols))])
    return casadi.Sparsity(n_rows, n_cols, starts.tolist(), where.rows.tolist())


def _callback(
    casadi: Any,
    run: Run,
    name: str,
    ins: dict[str, Any],
    outs: dict[str, tuple[Any, Callable[..., Any]]],
) -> Any:
    """A casadi function of flat arrays: inputs by their sparsity, outputs by their sparsity and a
    function of all inputs. What is not finite is a failed evaluation, at which Ipopt shortens its
    step; what a function raises is kept in `run`, and ends the solve."""
    given, made = list(ins.items()), list(outs.items())

    class Bridge(casadi.Callback):
        def __init__(self) -> None:
            casadi.Callback.__init__(self)
            self.construct(name, {})

        def get_n_in(self) -> int:
            return len(given)

        def get_n_out(self) -> int:
            return len(made)

        def get_name_in(self, i: int) -> str:
            return given[i][0]

        def get_name_out(self, i: int) -> str:
            return made[i][0]

        def get_sparsity_in(self, i: int) -> Any:
            return given[i][1]

        def get_sparsity_out(self, i: int) -> Any:
            return made[i][1][0]

        def has_eval_buffer(self) -> bool:
            return True

        def eval_buffer(self, arg: Any, res: Any) -> int:
            try:
                inputs = [np.zeros(0) if part is None else np.frombuffer(part) for part in arg]
                for out, (_, (_, function)) in zip(res, made, strict=True):
                    if out is not None:
                        found = np.nan if run.caught is not None else function(*inputs)
                        if not np.all(np.isfinite(found)):
                            return 1
                        np.frombuffer(out)[:] = found
            except BaseException as error:
                run.caught = error
                return 1
            return 0

    return Bridge()
