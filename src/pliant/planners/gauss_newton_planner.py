"""Structured Gauss-Newton, the default planner.

Adjoint sweeps compute the rows of the residual's Jacobian with the factor of each step, so an
iteration takes (residual rows) x (steps) solves. The control costs stay banded, and the normal
equations are solved as banded plus low rank. If it takes fewer operations, forward sweeps compute
the rows, or a Riccati recursion computes the step. With terms at many steps, the horizon is reduced
to the observed part of the states, so the operations grow linearly with the steps.
"""

from pliant.core import Array, InputError, Linearizable, ReducedDynamics, require_kind
from pliant.planners.augmented_lagrangian import plan_with_constraints
from pliant.planners.exact_penalty import has_linear_bounds
from pliant.planners.gauss_newton_search import search_by_gauss_newton
from pliant.planners.operation_counts import cheapest_route
from pliant.planners.options import with_progress
from pliant.planners.plan_result import Options, Plan, check_exact_derivatives
from pliant.problem import Problem

ROUTES = ("adjoint", "forward", "riccati", "reduced")


@with_progress
def gauss_newton(
    problem: Problem,
    *,
    guess: Array | None = None,
    options: Options | None = None,
    route: str | None = None,
) -> Plan:
    """Plan by Gauss-Newton with a trust region.

    `route` selects the linear algebra: "adjoint", "forward", "riccati" or "reduced". None takes the
    one with the fewest operations. "reduced" also returns feedback gains, in `plan.gains`. Raises
    InputError if the model has no exact derivatives.
    """
    require_kind(
        "The model of gauss_newton",
        problem.model,
        Linearizable,
        "take a rule with `linearize`, or method='gradient'",
    )
    check_exact_derivatives(problem, "gauss_newton")
    if route is not None and route not in ROUTES:
        raise InputError(
            f"There is no route '{route}'; choose one of {', '.join(ROUTES)}, or None."
        )
    if route == "reduced" and isinstance(problem.model, ReducedDynamics):
        raise InputError(
            "The route 'reduced' needs all states, but a condensed model has few; take None."
        )
    if problem.constraints:
        exact = _takes_exact_penalties(problem, route)
        return plan_with_constraints(
            problem,
            gauss_newton,
            guess=guess,
            options=options,
            exact=exact,
            route="reduced" if exact else route,
        )
    return search_by_gauss_newton(problem, guess=guess, options=options, route=route)


def _takes_exact_penalties(problem: Problem, route: str | None) -> bool:
    """Return whether the iterations treat the constraints by an interior point method."""
    attached = [one.attach(problem.model, problem.steps) for one in problem.constraints]
    observations = [row.observation for rows in attached for row in rows]
    chosen = route or cheapest_route(problem.with_observations(observations))
    return chosen == "reduced" and all(has_linear_bounds(rows[0]) for rows in attached)
