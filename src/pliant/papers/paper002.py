"""[Rodriguez2017]: Table I, the heat maps of Fig. 3, and Fig. 4 to 6 with the cylinder, the finger
and the pendulum of Pliant."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pliant import linalg
from pliant.actuators import AttachedLiquid, Hydraulic, merged_constraint
from pliant.core import Array
from pliant.dynamics import Quasistatic, equilibrium
from pliant.dynamics.equations import Equations
from pliant.geometry import Surface, hare_surface, icosphere
from pliant.hydrostatics import column_weights, hydrostatic_load
from pliant.papers.experiment_results import MeasuredMetrics, write_paper_result
from pliant.papers.panels import pictures, write_panels
from pliant.progress import Progress
from pliant.report import DrawnScene, Plot
from pliant.zoo.experiment import ExperimentRun, Metric
from pliant.zoo.experiments import cylinder_air_water as cylinder
from pliant.zoo.experiments import finger_inverse as finger
from pliant.zoo.experiments import finger_mixed as mixed
from pliant.zoo.experiments import pendulum_hydraulic as pendulum
from pliant.zoo.experiments.fluid_weight import GRAVITY, WATER
from pliant.zoo.inverse_report import controller_messages, failures, target_scene, tracking_plots
from pliant.zoo.inverse_tasks import TargetTask, TargetTaskResult, visit_targets
from pliant.zoo.registry import find

SHOWS = (
    "Table I (volumes and times of columns and of the exact weight), the heat maps of Fig. 3, "
    "Fig. 4 to 6 with the robots of Pliant, and the joint actuation by water and cables"
)
TABLE = {"sphere": "fluid-sphere", "bunny": "fluid-bunny-like"}
GRIDS = (30, 50, 200, 500)  # of Fig. 3
# [degrees] azimuth and elevation of the camera
VIEW_FROM_BELOW = (-60.0, -25.0)
FRONT_VIEW = (-90.0, 5.0)
BOTTOM_VIEW = (-90.0, -75.0)
NOTES = (
    "The columns apply the whole weight of the fluid vertically to the triangles that face down. "
    "A real fluid at rest applies a pressure normal to every wall, which increases with depth "
    "(last picture of each row of Fig. 3). In all pictures, larger triangles carry more. Both "
    "loads have the same sum and the same torque about horizontal axes, so slender bodies bend "
    "alike.",
    "The paper does not give the angles of Fig. 4, the sizes and materials of its robots, or the "
    "targets of Fig. 5 and 6. These are our choice.",
    "The merged constraint of section IV is the first term of the exact response: the weight "
    "grows with the volume, but its distribution over the wall stays constant. The tangent of "
    "Pliant includes the derivative of the weight, so no merging is necessary.",
    "The paper's bunny is another shape with about as many triangles: its errors and times are "
    "comparable, its volumes are not.",
)


@dataclass(frozen=True, kw_only=True)
class ReproducedPart:
    """The metrics, plots, notes and pictures of one table or figure."""

    metrics: Mapping[str, Metric]
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
    media: tuple[str, ...] = ()  # names of pictures in the folder


def reproduce(folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """Reproduce the table and the figures and write the result folder."""
    start = time.perf_counter()
    parts = [
        *(table_one(folder, shape, quick, progress) for shape in TABLE),
        figure_three(folder, quick, progress),
        figure_four(folder, quick, progress),
        section_four(quick),
        *figure_five_with_mixed_actuation(folder, quick, progress),
        figure_six(folder, quick, progress),
    ]
    metrics = {name: metric for part in parts for name, metric in part.metrics.items()}
    notes = [*NOTES, *(note for part in parts for note in part.notes)]
    plots, media = (
        [plot for part in parts for plot in part.plots],
        [name for part in parts for name in part.media],
    )
    return write_paper_result(
        folder,
        "002",
        SHOWS,
        MeasuredMetrics(metrics=metrics, notes=notes),
        quick=quick,
        start=start,
        plots=plots,
        media=media,
    )


def table_one(folder: Path, shape: str, quick: bool, progress: Progress) -> ReproducedPart:
    """Return the half of Table I for a shape, "sphere" or "bunny"."""
    experiment = find(TABLE[shape])
    outcome = experiment.perform(
        ExperimentRun(
            settings=experiment.resolve_settings(quick=quick),
            folder=folder,
            identity=experiment.name,
            progress=lambda what, done, total: progress(f"Table I, {shape}", done, total),
        )
    )
    metrics = {f"Table I, {shape}: {name}": metric for name, metric in outcome.metrics.items()}
    return ReproducedPart(
        metrics={
            **metrics,
            f"Table I, {shape}: accuracy reached": Metric(value=bool(outcome.reached)),
        },
        notes=tuple(outcome.notes[:1]),
        plots=tuple(
            replace(plot, title=f"Table I, {shape}: {plot.title}") for plot in outcome.plots
        ),
    )


def figure_three(folder: Path, quick: bool, progress: Progress) -> ReproducedPart:
    """Return Fig. 3: heat maps of the nodal weights of four column grids and of the exact force."""
    rows, titles = [], []
    for k, (name, surface) in enumerate(
        {
            "sphere": icosphere(0.01),
            "hare": hare_surface(0.02, divisions=20 if quick else 67),
        }.items()
    ):
        progress("Fig. 3", k, 2)
        rows.append(
            [
                *pictures(heat_map(surface, column_weight_maps(surface))),
                *pictures(heat_map(surface, exact_force_map(surface))),
            ]
        )
        titles.append([*(f"{name}, {grid}² columns" for grid in GRIDS), f"{name}, exact pressure"])
    progress("Fig. 3", 2, 2)
    return ReproducedPart(
        metrics={}, media=(write_panels(folder / "fig-3.png", rows, titles).name,)
    )


def column_weight_maps(surface: Surface) -> Array:
    """Return the weight on each node by columns, (grids, n) [N]."""
    return np.array(
        [
            column_weights(
                surface.points, surface.triangles, grid=grid, density=WATER, gravity=GRAVITY
            ).weights
            for grid in GRIDS
        ]
    )


def exact_force_map(surface: Surface) -> Array:
    """Return the magnitude of the hydrostatic force on each node, (1, n) [N]."""
    return np.linalg.norm(
        hydrostatic_load(surface.points, surface.triangles, density=WATER, gravity=GRAVITY).forces,
        axis=1,
    )[None]


def heat_map(surface: Surface, forces: Array) -> DrawnScene:
    """Return a scene with a frame for each row of nodal forces (frames, n) [N].

    The colour scale is that of the last row.
    """
    return DrawnScene(
        frames=np.broadcast_to(surface.points, (len(forces), *surface.points.shape)),
        facets=surface.triangles,
        values=1e6 * forces,
        value_label="force [µN]",
        value_limits=(0.0, 1e6 * float(np.percentile(forces[-1], 99.5))),
        view=VIEW_FROM_BELOW,
    )


def figure_four(folder: Path, quick: bool, progress: Progress) -> ReproducedPart:
    """Return Fig. 4: the cylinder with air and water, at rest and with 15 ml more."""
    s = find("cylinder-air-water").resolve_settings(quick=quick)
    found = cylinder.deflections(s, lambda what, done, total: progress("Fig. 4", done, total))
    states = [
        found.filled[fluid].states[k] for fluid in cylinder.FLUIDS for k in cylinder.STAGES.values()
    ]
    titles = [
        f"{name.replace('+15 ml', '15 ml more')}: {angle:.1f}°"
        for name, angle in found.angles.items()
    ]
    images = pictures(cylinder.deflection_scene(found.filled["water"].robot, np.array(states), ""))
    plots = (cylinder.angle_plot(found), cylinder.outline_plot(found))
    return ReproducedPart(
        metrics={
            f"Fig. 4, {name}": metric
            for name, metric in cylinder.deflection_metrics(found, int(s["grid"])).items()
        }
        | {
            "Fig. 4: accuracy of the columns reached": Metric(
                value=bool(found.angle_difference <= cylinder.MAX_DIFFERENCE)
            )
        },
        plots=tuple(replace(plot, title=f"Fig. 4: {plot.title}") for plot in plots),
        notes=(cylinder.NOTE,),
        media=(
            write_panels(
                folder / "fig-4.png", [images[:2], images[2:]], [titles[:2], titles[2:]]
            ).name,
        ),
    )


def section_four(quick: bool) -> ReproducedPart:
    """Return the errors of two approximations of the response of the water-filled cylinder to
    pressure: the merged constraint of section IV, and the pressure alone."""
    robot = cylinder.cylinder(find("cylinder-air-water").resolve_settings(quick=quick), "water")
    model = Quasistatic(
        replace(robot, actuators={"pump": Hydraulic(cavity="cavity", limits=(-1e5, 1e5))})
    )
    exact, merged, pressure_only = responses(model, np.array([1000.0]))
    approximations = {"the merged constraint": merged, "the pressure alone": pressure_only}
    return ReproducedPart(
        metrics={
            f"Section IV: response error of {name}": Metric(
                value=100.0 * float(np.linalg.norm(response - exact) / np.linalg.norm(exact)),
                unit="%",
            )
            for name, response in approximations.items()
        }
    )


def solve_without_weight_derivative(eq: Equations, q: Array, u: Array) -> linalg.Solve:
    """Return the solve with the tangent without the derivative of the liquid's weight, as in the
    paper."""
    blocks = [
        None if isinstance(term, AttachedLiquid) else block
        for (term, _), block in zip(eq.potentials, eq.potential_hessians(q, u), strict=True)
    ]
    values = eq.tangent.values(
        eq.body.stiffness(q, eq.body.fields), 0.0 * eq.coefficients(None).pair_mass, blocks
    )
    solve = eq.tangent.factor(values, *eq.rank_one_columns(q, u))
    assert solve is not None
    return solve


def responses(model: Quasistatic, u: Array) -> tuple[Array, Array, Array]:
    """Return three responses dq/dp of the free unknowns at the equilibrium under u (1,) [Pa].

    They are exact, by the merged constraint, and by the pressure alone. The last two use the
    tangent without the derivative of the weight, as the paper does.
    """
    eq, step = model.equations, equilibrium(model, u)
    q, free = step.x, eq.free
    solve = solve_without_weight_derivative(eq, q, u)
    (pump, _), liquid = (
        eq.potentials[0],
        next(term for term, _ in eq.potentials if isinstance(term, AttachedLiquid)),
    )
    y = liquid.weights @ q.reshape(-1, 3) + liquid.offset
    weight = -(liquid.weights.T @ liquid.gradient(y, u)).ravel()[free]
    J_p = -eq.control_jacobian(q, u)[free].T
    J_a = merged_constraint(J_p, weight[None], np.array([pump.volume(y)]), solve)  # type: ignore[attr-defined]
    return model.linearize(step).dense_controls()[free, 0], solve(J_a)[:, 0], solve(J_p.T)[:, 0]


def figure_five_with_mixed_actuation(
    folder: Path, quick: bool, progress: Progress
) -> tuple[ReproducedPart, ReproducedPart]:
    """Return Fig. 5, and the joint actuation by water and cables of the paper's future work."""
    tips = finger.tip_curves(
        find("finger-hydraulic").resolve_settings(quick=quick),
        lambda what, done, total: progress("Fig. 5: reachable positions", done, total),
    )
    return (
        figure_five(folder, quick, progress, tips),
        mixed_actuation(quick, progress, tips),
    )


def mixed_actuation(quick: bool, progress: Progress, tips: finger.Curves) -> ReproducedPart:
    """Return the finger with water and two cables at the targets of Fig. 5."""
    target_task = mixed.task(find("finger-mixed").resolve_settings(quick=quick), tips)
    result = visit_targets(
        target_task, lambda what, done, total: progress("water and cables", done, total)
    )
    metrics = mixed.mixed_metrics(tips, target_task, result)
    return ReproducedPart(
        metrics={
            **{f"Future work, water and cables, {name}": m for name, m in metrics.items()},
            "Future work, water and cables: targets reached": Metric(
                value=not failures(target_task, result)
            ),
        },
        plots=(
            replace(
                mixed.reachable_plot(tips, result),
                title="Future work: the finger with water and cables",
            ),
        ),
        notes=(f"Future work, water and cables: {' '.join(controller_messages(result))}",),
    )


def figure_five(
    folder: Path, quick: bool, progress: Progress, tips: finger.Curves
) -> ReproducedPart:
    """Return Fig. 5: inverse control of the finger with water and with air, same targets."""
    s = find("finger-hydraulic").resolve_settings(quick=quick)
    tasks = {fluid: finger.task(s, fluid, tips) for fluid in tips}
    result = {
        fluid: visit_targets(
            target_task,
            lambda what, done, total, fluid=fluid: progress(f"Fig. 5, {fluid}", done, total),  # type: ignore[misc]
        )
        for fluid, target_task in tasks.items()
    }
    metrics: dict[str, Metric] = {}
    for fluid, target_task in tasks.items():
        metrics |= {
            f"Fig. 5, {fluid}, {name}": m
            for name, m in finger.finger_metrics(tips[fluid], target_task, result[fluid]).items()
        }
        faults = failures(target_task, result[fluid]) + finger.not_closest(
            tips[fluid], result[fluid]
        )
        metrics[f"Fig. 5, {fluid}: targets or closest points reached"] = Metric(value=not faults)
    titles = [
        [f"{fluid}, {visit_title(name, one)}" for name in one.visits]
        for fluid, one in result.items()
    ]
    images = pictures(
        visits_scene(tasks["water"], list(result.values()), finger.VIEW),
        targets=np.concatenate(
            [list(target_task.targets.values()) for target_task in tasks.values()]
        ),
    )
    pairs = list(
        zip(images[: len(images) // 2], images[len(images) // 2 :], strict=True)
    )  # water to the left, air to the right
    return ReproducedPart(
        metrics=metrics,
        plots=(
            replace(
                finger.reachable_plot(tips, result), title="Fig. 5: Reachable positions of the tip"
            ),
        ),
        notes=tuple(
            f"Fig. 5, {fluid}: {' '.join(controller_messages(one))}"
            for fluid, one in result.items()
        ),
        media=(write_panels(folder / "fig-5.png", pairs, list(zip(*titles, strict=True))).name,),
    )


def figure_six(folder: Path, quick: bool, progress: Progress) -> ReproducedPart:
    """Return Fig. 6: inverse control of the pendulum, seen from the front and from below."""
    target_task = pendulum.task(find("pendulum-hydraulic").resolve_settings(quick=quick))
    result = visit_targets(target_task, lambda what, done, total: progress("Fig. 6", done, total))
    targets, titles = (
        np.array(list(target_task.targets.values())),
        [visit_title(name, result) for name in result.visits],
    )
    rows = [
        pictures(visits_scene(target_task, [result], view), targets=targets, size=(520, 600))
        for view in (FRONT_VIEW, BOTTOM_VIEW)
    ]
    plots = (*pendulum.position_plots(result), *tracking_plots(target_task, result))
    metrics = {
        f"Fig. 6, {name}": metric
        for name, metric in pendulum.pendulum_metrics(target_task, result).items()
    }
    return ReproducedPart(
        metrics={
            **metrics,
            "Fig. 6: targets or closest points reached": Metric(
                value=not failures(target_task, result)
            ),
        },
        plots=tuple(replace(plot, title=f"Fig. 6: {plot.title}") for plot in plots),
        notes=(f"Fig. 6: {' '.join(controller_messages(result))}",),
        media=(write_panels(folder / "fig-6.png", rows, [titles, [""] * len(titles)]).name,),
    )


def visits_scene(
    target_task: TargetTask, results: Sequence[TargetTaskResult], view: tuple[float, float]
) -> DrawnScene:
    """Return a scene with a frame for each visit of each result, with the robot at rest."""
    settled = np.array([visit.pose.x for result in results for visit in result.visits.values()])
    return replace(
        target_scene(target_task, replace(results[0], states=settled), "", view),
        lines=(),
        targets=None,
    )


def visit_title(name: str, result: TargetTaskResult) -> str:
    """Return the name of a target, with "reached" or the distance of the effector."""
    visit = result.visits[name]
    distance = f"{1e3 * visit.pose.error:.1f} mm away"
    return f"{name}: {'reached' if visit.reached else distance}"
