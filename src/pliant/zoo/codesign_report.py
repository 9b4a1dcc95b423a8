"""Metrics and plots of constrained optimisations of the same task with fixed and with co-optimised
designs."""

from collections.abc import Mapping

import numpy as np

from pliant.optimisation import OptimisationResult
from pliant.report import Metric, Plot

REACHED = 1e-2  # relative violation of a constraint that counts as met
SMALLEST = 1e-4  # a violation of zero has no place on a logarithmic axis


def costs(title: str, found: Mapping[str, OptimisationResult], codesign: str) -> dict[str, Metric]:
    """Return the actuation cost, the violation and the iterations of each configuration, and the
    cost of the co-design relative to the others."""
    out = {}
    for name, one in found.items():
        out[f"actuation cost, {name}{title}"] = Metric(value=one.value, unit="s")
        out[f"relative violation, {name}{title}"] = Metric(value=one.best.violation)
        if np.isfinite(count := iterations_to_goal(one)):
            out[f"iterations to the goal, {name}{title}"] = Metric(value=int(count))
    for name in found:
        if name != codesign:
            share = found[codesign].value / found[name].value
            out[f"cost of {codesign} over {name}{title}"] = Metric(value=share, paper="< 0.75")
    return out


def iterations_to_goal(result: OptimisationResult) -> float:
    """Return the number of iterations to the first that meets the constraints, infinite for
    none."""
    met = [k for k, row in enumerate(result.history) if row.constraint_violation <= REACHED]
    return min(met, default=np.inf)


def convergence_plots(title: str, found: Mapping[str, OptimisationResult]) -> list[Plot]:
    """Return the constraint violation and the actuation cost over the iterations, as Fig. 10 of
    [Spielberg2021]."""
    violations = {
        name: np.maximum([row.constraint_violation for row in one.history], SMALLEST)
        for name, one in found.items()
    }
    values = {name: np.array([row.value for row in one.history]) for name, one in found.items()}
    return [
        Plot(
            title=f"Fig. 10: constraint violation{title}",
            x="iteration",
            y=f"largest relative violation, at least {SMALLEST:g}",
            log_y=True,
            series={name: (np.arange(len(v)), v) for name, v in violations.items()},
            references={"met": REACHED},
        ),
        Plot(
            title=f"Fig. 10: actuation cost{title}",
            x="iteration",
            y="integral of squared relative pressures [s]",
            series={name: (np.arange(len(v)), v) for name, v in values.items()},
        ),
    ]
