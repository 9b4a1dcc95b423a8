"""plan: solve a planning problem with the planner that suits the model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pliant.core import Array, Dynamics, InputError, Linearizable, Reversible, nearest
from pliant.planners.augmented_lagrangian import plan_with_constraints
from pliant.planners.ddp_planner import ddp
from pliant.planners.gauss_newton_planner import gauss_newton
from pliant.planners.gradient_planner import gradient
from pliant.planners.newton_planner import newton
from pliant.planners.options import Options, checked_options
from pliant.planners.plan_result import Plan, has_approximate_derivatives
from pliant.problem import Problem, Term
from pliant.progress import Progress

METHODS = ("gauss_newton", "newton", "ddp", "collocation", "gradient")
# `plan` passes them to a Problem, which refuses the last two with the function to use
PROBLEM_FIELDS = (
    "x0",
    "previous_control",
    "limits",
    "constraints",
    "params",
    "variables",
    "scenes",
)


def plan(
    model: Dynamics | Problem,
    terms: Sequence[Term] | Term | None = None,
    *,
    steps: int | None = None,
    method: str | Callable[..., Plan] | None = None,
    guess: Array | None = None,
    options: Options | None = None,
    progress: Progress | bool | None = None,
    **kwargs: Any,
) -> Plan:
    """Return the controls that minimise the terms, as a Plan.

    Call plan(problem) or plan(model, terms, steps=...). The second form also takes x0,
    previous_control, limits, constraints and params as in Problem.

    Parameters
    ----------
    model : a Problem, or any Dynamics such as ImplicitEuler(robot, dt=...)
    terms : one or several objective terms, such as [Goal(...), Effort(...)]
    steps : number of time steps
    method : "gauss_newton", "newton", "ddp", "collocation" or "gradient". None takes ddp for
        condensed models, gauss_newton for others with `linearize`, else gradient. Also a function
        method(problem, *, guess, options, **kwargs) that returns a Plan.
    guess : initial controls (steps, n_controls); None for a constant control
    options : Options(iterations=..., tolerance=..., folder=...)
    progress : None shows progress after two seconds, False is silent; or a function
        progress(what, done, total)
    kwargs : arguments of the planner. gradient takes optimiser, rate and checkpoints, ddp and
        newton second_order, gauss_newton route. With constraints: tolerance and rounds of the
        augmented Lagrangian.

    Raises InputError for a problem or arguments that do not fit, and StepError if the guess
    cannot be simulated. A search that does not converge returns a Plan whose status says so.

    >>> import pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ...     effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    ... )
    >>> goal = pl.Goal(effector="tip", target=(0.1, 0.0), time=0.5)
    >>> plan = pl.plan(pl.ImplicitEuler(robot, dt=0.1), [goal, pl.Effort(weight=1e-6)], steps=5)
    >>> bool(plan.goal_errors[0][2] < 1e-3)  # [m]
    True
    """
    problem = _problem(
        model, terms, steps, {name: kwargs.pop(name) for name in PROBLEM_FIELDS if name in kwargs}
    )
    problem.check_plannable()
    chosen = best_method(problem.model) if method is None else method
    planner = chosen if callable(chosen) else planner_named(chosen)
    if progress is not None:
        options = replace(checked_options(options), progress=progress)
    try:
        if problem.constraints and chosen != "collocation":
            return plan_with_constraints(problem, planner, guess=guess, options=options, **kwargs)
        return planner(problem, guess=guess, options=options, **kwargs)
    except TypeError as error:
        if "unexpected keyword argument" in str(error) and any(
            f"'{name}'" in str(error) for name in kwargs
        ):
            raise InputError(
                f"The planner {planner.__name__} does not accept all of {', '.join(kwargs)} "
                f"({error}); see help(pliant.plan)."
            ) from None
        raise


def best_method(model: Dynamics) -> str:
    """Return the name of the default planner for a model. Raises InputError if none fits."""
    if has_approximate_derivatives(model):
        return "ddp"
    if isinstance(model, Linearizable):
        return "gauss_newton"
    if isinstance(model, Reversible):
        return "gradient"
    raise InputError(
        f"{type(model).__name__} has neither `linearize` nor `pullback`, which planners need for "
        "derivatives; take a rule such as ImplicitEuler, or add one of them to the model."
    )


def planner_named(name: str) -> Callable[..., Plan]:
    """Return the planner of a name in METHODS. Raises InputError for another name."""
    if name not in METHODS:
        raise InputError(f"There is no planner '{name}'; {nearest(name, METHODS)}")
    if name == "collocation":
        from pliant.planners.collocation_planner import collocation

        return collocation
    planners: dict[str, Callable[..., Plan]] = {
        "gauss_newton": gauss_newton,
        "newton": newton,
        "ddp": ddp,
        "gradient": gradient,
    }
    return planners[name]


def _problem(
    model: Dynamics | Problem,
    terms: Sequence[Term] | Term | None,
    steps: int | None,
    parts: dict[str, Any],
) -> Problem:
    if isinstance(model, Problem):
        given = [
            name for name, value in (("terms", terms), ("steps", steps)) if value is not None
        ] + list(parts)
        if given:
            raise InputError(
                f"The problem already has {', '.join(given)}; omit them, or give a model instead "
                "of a problem."
            )
        return model
    if terms is None or steps is None:
        raise InputError(
            "Planning with a model needs terms and steps, but "
            f"{'terms' if terms is None else 'steps'} is missing; call plan(model, [Goal(...), "
            "Effort(...)], steps=...)."
        )
    many = terms if isinstance(terms, Sequence) else (terms,)
    return Problem(model=model, terms=tuple(many), steps=steps, **parts)
