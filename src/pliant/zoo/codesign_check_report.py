"""The report of finger-codesign: the design with particles beside finite elements."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.core import Array
from pliant.design import Fit, RobotDesign
from pliant.dynamics import BDF2
from pliant.planners import Plan
from pliant.report import Plot
from pliant.report.page import PageTable
from pliant.zoo.designed_finger import LENGTH, NAMES, TARGETS, TRUTH, effector_path, target_error
from pliant.zoo.experiment import Metric


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignCheck:
    """A design with particles, simulated and replanned with finite elements."""

    fit: Fit
    designs: Mapping[str, RobotDesign]  # the last one is built
    elements: BDF2  # the model of the exported robot
    states: Array  # (steps + 1, n_state) of finite elements with the controls of the design
    plan: Plan  # of finite elements, from these controls
    fresh: Plan  # from constant controls

    @property
    def design(self) -> RobotDesign:
        return list(self.designs.values())[-1]

    @property
    def targets(self) -> Array:
        return np.array(list(TARGETS.values()))

    def designed_path(self, name: str) -> Array:
        """Return the path (steps + 1, 2) [m] of an effector of the particles."""
        return effector_path(self.design.problem.model, name, self.design.simulate().states)

    def checked_path(self, name: str) -> Array:
        """Return the path (steps + 1, 2) [m] of an effector of the finite elements."""
        return effector_path(self.elements, name, self.states)

    @property
    def gaps(self) -> Array:
        """The distances (steps + 1,) of the tip from that of the particles, over the displacement
        at the end."""
        designed, checked = self.designed_path("tip"), self.checked_path("tip")
        moved = np.linalg.norm(designed[-1] - (0.0, -LENGTH))
        return np.asarray(np.linalg.norm(checked - designed, axis=1) / moved)

    @property
    def difference(self) -> float:
        """The relative difference of the displacements of the tip at the end."""
        return float(self.gaps[-1])


def errors(check: DesignCheck) -> dict[str, float]:
    """Return the root mean square distances [m] from the targets: of each design with particles,
    and with finite elements before and after replanning."""
    designs = {
        f"particles, {name}": target_error(one.problem.model, one.simulate().states)
        for name, one in check.designs.items()
    }
    return {
        **designs,
        "finite elements": target_error(check.elements, check.states),
        "finite elements, replanned": target_error(check.elements, check.plan.states),
    }


def check_metrics(check: DesignCheck) -> dict[str, Metric]:
    fit, last = check.fit, check.design
    assert last.budget is not None
    values = {
        f"error of {name}": Metric(
            value=100.0 * (float(fit.values[name]) / TRUTH[name] - 1.0), unit="%"
        )
        for name in NAMES
    }
    particles: Any = last.problem.model
    return {
        "difference of the tip's displacement": Metric(value=100.0 * check.difference, unit="%"),
        "largest difference along the path": Metric(value=100.0 * check.gaps.max(), unit="%"),
        **{
            f"distance from the targets, {name}": Metric(value=1e3 * error, unit="mm")
            for name, error in errors(check).items()
        },
        "cost with finite elements": Metric(value=check.plan.history[0].cost),
        "cost with finite elements, replanned": Metric(value=check.plan.cost),
        "replanning iterations": Metric(value=check.plan.status.iterations),
        "planning iterations from constant tensions": Metric(value=check.fresh.status.iterations),
        "cost of replanning over that of a new plan": Metric(
            value=check.plan.cost / check.fresh.cost
        ),
        **values,
        "materials": Metric(value=len(last.budget.names)),
        "particles": Metric(value=particles.body.n_particles),
        "nodes of the finite elements": Metric(value=check.elements.space.n_dofs // 2),
        "substeps": Metric(value=particles.substeps * (len(check.states) - 1)),
    }


def check_tables(check: DesignCheck) -> list[PageTable]:
    fit = check.fit
    rows = [
        (name, TRUTH[name], float(fit.values[name]), *map(float, fit.intervals[name]))
        for name in NAMES
    ]
    parts = tuple((name, 1e-3 * m.E) for name, m in check.elements.robot.material.items())  # type: ignore[union-attr]
    return [
        PageTable(
            title="Identified from recordings of finite elements",
            columns=("parameter", "true", "identified", "95 % from", "to"),
            rows=tuple((name, *(f"{value:.4g}" for value in row)) for name, *row in rows),
        ),
        PageTable(
            title="Printable materials",
            columns=("material", "E [kPa]"),
            rows=tuple((name, f"{E:.4g}") for name, E in parts),
        ),
    ]


def check_plots(check: DesignCheck, dt: float) -> list[Plot]:
    times = dt * np.arange(len(check.states))
    paths = {
        "particles": check.designed_path("tip"),
        "finite elements": check.checked_path("tip"),
        "finite elements, replanned": effector_path(check.elements, "tip", check.plan.states),
    }
    tension = {"design": check.design.values["controls"], "replanned": check.plan.controls}
    return [
        Plot(
            title="Tip",
            x="x [m]",
            y="y [m]",
            series={name: (path[:, 0], path[:, 1]) for name, path in paths.items()},
        ),
        Plot(
            title="Distance of both tips",
            x="time [s]",
            y="distance / displacement at the end",
            series={"tip": (times, check.gaps)},
            references={"10 %": 0.1},
        ),
        Plot(
            title="Tension of the cables",
            x="time [s]",
            y="tension [N]",
            series={
                f"{cable}, {name}": (times[1:], u[:, k])
                for name, u in tension.items()
                for k, cable in enumerate(check.elements.robot.actuators)
            },
        ),
        *(
            Plot(
                title=f"E along the finger, {name}",
                x="depth below the support [m]",
                y="E [kPa]",
                series=modulus_profiles(check.designs[name]),
                kind="points",
            )
            for name in ("co-design", "few materials")
        ),
    ]


def modulus_profiles(design: RobotDesign) -> dict[str, tuple[Array, Array]]:
    """Return the mean modulus [kPa] over the depth [m] of the left, middle and right third."""
    model: Any = design.problem.model
    at, E = model.body.cell_centres(), 1e-3 * design.fields["cells.E"]
    width = np.ptp(at[:, 0]) / 3.0
    third = np.clip(((at[:, 0] - at[:, 0].min()) / width).astype(int), 0, 2)
    out = {}
    for k, name in enumerate(("left", "middle", "right")):
        depths, rows = np.unique(np.round(-at[third == k, 1], 9), return_inverse=True)
        total = np.bincount(rows, E[third == k]) / np.bincount(rows)
        out[name] = (depths, total)
    return out
