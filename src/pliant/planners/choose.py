"""plan: the one verb that turns what is wanted into a Plan, by the planner that suits the model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pliant.core import Array, Dynamics, InputError, Linearizable, Reversible, nearest
from pliant.planners.ddp import ddp
from pliant.planners.gauss_newton import gauss_newton
from pliant.planners.gradient import gradient
from pliant.planners.lagrangian import constrained
from pliant.planners.newton import newton
from pliant.planners.options import Options, checked_options
from pliant.planners.plan import Plan, is_rough
from pliant.problem import Problem, Term
from pliant.progress import Progress

METHODS = ("gauss_newton", "newton", "ddp", "collocation", "gradient")
PARTS = ("x0", "before", "limits", "constraints", "params")  # of a Problem


def plan(
    model: Dynamics | Problem,
    terms: Sequence[Term] | Term | None = None,
    *,
    steps: int | None = None,
    method: str | None = None,
    guess: Array | None = None,
    options: Options | None = None,
    progress: Progress | bool | None = None,
    **kwargs: Any,
) -> Plan:
    """Find controls: plan(problem), or plan(model, terms, steps=...) with x0, before, limits,
    constraints and params as in Problem.

    `method` is one of METHODS, or None for gauss_newton where the model can be linearised (ddp
    where it is condensed) and gradient where not. All other keywords go to the planner (gradient:
    optimiser, rate, checkpoints; ddp and newton: second_order; gauss_newton: route). Constraints
    are kept by the augmented Lagrangian (with tolerance and rounds), by collocation in its own
    program. Progress is shown once the work lasts longer than two seconds; `progress` False
    silences it, and a function progress(what, done, total) takes its place.
    """
    problem = _problem(
        model, terms, steps, {name: kwargs.pop(name) for name in PARTS if name in kwargs}
    )
    chosen = best_method(problem.model) if method is None else method
    if chosen not in METHODS:
        raise InputError(f"There is no planner '{chosen}'; {nearest(chosen, METHODS)}")
    planner = _planner(chosen)
    if progress is not None:
        options = replace(checked_options(options), progress=progress)
    try:
        if problem.constraints and chosen != "collocation":
            return constrained(problem, planner, guess=guess, options=options, **kwargs)
        return planner(problem, guess=guess, options=options, **kwargs)
    except TypeError as error:
        if "unexpected keyword argument" in str(error) and any(
            f"'{name}'" in str(error) for name in kwargs
        ):
            raise InputError(
                f"The planner {chosen} does not know what to do with {', '.join(kwargs)} "
                f"({error}); look at help(plan)."
            ) from None
        raise


def best_method(model: Dynamics) -> str:
    """The name of the planner that suits a model."""
    if is_rough(model):
        return "ddp"
    if isinstance(model, Linearizable):
        return "gauss_newton"
    if isinstance(model, Reversible):
        return "gradient"
    raise InputError(
        f"{type(model).__name__} has neither `linearize` nor `pullback`, so that no planner can "
        "follow its slope; take a rule such as ImplicitEuler, or wrap the model in one that has "
        "them."
    )


def _planner(name: str) -> Callable[..., Plan]:
    if name == "collocation":
        from pliant.planners.collocation import collocation

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
                f"The problem has {', '.join(given)} already; leave them out, or give a model in "
                "place of a problem."
            )
        return model
    if terms is None or steps is None:
        raise InputError(
            "A plan of a model needs terms and a horizon, but there is no "
            f"{'terms' if terms is None else 'steps'}; call plan(model, [Goal(...), "
            "Effort(...)], steps=...)."
        )
    many = terms if isinstance(terms, Sequence) else (terms,)
    return Problem(model=model, terms=tuple(many), steps=steps, **parts)
