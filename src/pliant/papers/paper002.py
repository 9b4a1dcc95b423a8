"""[Rodriguez2017]: Table I, the heat maps of Fig. 3, and Fig. 4 to 6 with our cylinder, finger and
pendulum."""

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
from pliant.dynamics.implicit_model import ImplicitModel
from pliant.geometry import Surface, hare_surface, icosphere
from pliant.hydrostatics import column_weights, hydrostatic_load
from pliant.papers.experiment_results import Found, written
from pliant.papers.panels import pictures, write_panels
from pliant.progress import Progress
from pliant.report import Plot, Scene
from pliant.zoo.experiment import ExperimentRun, Metric
from pliant.zoo.experiments import cylinder_air_water as cylinder
from pliant.zoo.experiments import finger_inverse as finger
from pliant.zoo.experiments import pendulum_hydraulic as pendulum
from pliant.zoo.experiments.fluid_weight import GRAVITY, WATER
from pliant.zoo.inverse_tasks import (
    TargetTask,
    TargetTaskResult,
    controller_messages,
    failures,
    follow_plots,
    target_scene,
    visit_targets,
)
from pliant.zoo.registry import find

SHOWS = (
    "Table I (volumes and times by grid, columns and exact), the heat maps of Fig. 3, and Fig. 4 "
    "to 6 with our robots"
)
TABLE = {"sphere": "fluid-sphere", "bunny": "fluid-bunny-like"}
GRIDS = (30, 50, 200, 500)  # of Fig. 3
BELOW, FRONT, BOTTOM = (
    (-60.0, -25.0),
    (-90.0, 5.0),
    (-90.0, -75.0),
)  # [degrees] where the eye is; the weight is below
NOTES = (
    "The columns put the whole weight of the fluid on the triangles that face down, straight "
    "down. A fluid at rest presses on every wall, at right angles, and more so further down: the "
    "last picture of each row of Fig. 3, where as in the others larger triangles bear more. Both "
    "have the same sum and the same torque about a level axis, so that slender bodies droop "
    "alike.",
    "The paper does not print the angles of Fig. 4, the sizes and materials of its robots or the "
    "targets of Fig. 5 and 6: those are ours.",
    "The merged constraint of section IV is the first term of the exact response: it lets the "
    "weight grow with the volume, but stay as it is spread over the wall. Here the tangent holds "
    "the derivative of the weight itself, so that no merging is needed.",
    "The paper's bunny is another shape of about as many triangles: its errors and times may be "
    "set beside ours, its volumes not.",
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one table or figure brings."""

    metrics: Mapping[str, Metric]
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
    media: tuple[str, ...] = ()  # names of pictures in the folder


def reproduce(folder: Path, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """Everything of [Rodriguez2017], in one folder."""
    began = time.perf_counter()
    parts = [
        *(table_one(folder, which, quick, progress) for which in TABLE),
        figure_three(folder, quick, progress),
        figure_four(folder, quick, progress),
        section_four(quick),
        figure_five(folder, quick, progress),
        figure_six(folder, quick, progress),
    ]
    metrics = {name: metric for part in parts for name, metric in part.metrics.items()}
    found = Found(metrics=metrics, notes=[*NOTES, *(note for part in parts for note in part.notes)])
    plots, media = (
        [plot for part in parts for plot in part.plots],
        [name for part in parts for name in part.media],
    )
    return written(folder, "002", SHOWS, found, quick=quick, began=began, plots=plots, media=media)


def table_one(folder: Path, which: str, quick: bool, progress: Progress) -> Part:
    """A half of Table I."""
    experiment = find(TABLE[which])
    found = experiment.perform(
        ExperimentRun(
            settings=experiment.chosen(quick=quick),
            folder=folder,
            identity=experiment.name,
            progress=lambda what, done, total: progress(f"Table I, {which}", done, total),
        )
    )
    metrics = {f"Table I, {which}: {name}": metric for name, metric in found.metrics.items()}
    return Part(
        metrics={**metrics, f"Table I, {which}: reached": Metric(value=bool(found.reached))},
        notes=tuple(found.notes[:1]),
        plots=tuple(replace(plot, title=f"Table I, {which}: {plot.title}") for plot in found.plots),
    )


def figure_three(folder: Path, quick: bool, progress: Progress) -> Part:
    """The weight on each node by columns of four grids, and the exact force."""
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
                *pictures(heat_map(surface, by_columns(surface))),
                *pictures(heat_map(surface, exactly(surface))),
            ]
        )
        titles.append([*(f"{name}, {grid}² columns" for grid in GRIDS), f"{name}, exact pressure"])
    progress("Fig. 3", 2, 2)
    return Part(metrics={}, media=(write_panels(folder / "fig-3.png", rows, titles).name,))


def by_columns(surface: Surface) -> Array:
    """(grids, n) [N] the weight on each node."""
    return np.array(
        [
            column_weights(
                surface.points, surface.triangles, grid=grid, density=WATER, gravity=GRAVITY
            ).weights
            for grid in GRIDS
        ]
    )


def exactly(surface: Surface) -> Array:
    """(1, n) [N] the size of the force on each node."""
    return np.linalg.norm(
        hydrostatic_load(surface.points, surface.triangles, density=WATER, gravity=GRAVITY).forces,
        axis=1,
    )[None]


def heat_map(surface: Surface, borne: Array) -> Scene:
    """A frame for each row of what the nodes bear (frames, n) [N], all in the colours of the last
    one."""
    return Scene(
        frames=np.broadcast_to(surface.points, (len(borne), *surface.points.shape)),
        facets=surface.triangles,
        values=1e6 * borne,
        value_label="force [µN]",
        value_limits=(0.0, 1e6 * float(np.percentile(borne[-1], 99.5))),
        view=BELOW,
    )


def figure_four(folder: Path, quick: bool, progress: Progress) -> Part:
    """The cylinder, four times."""
    s = find("cylinder-air-water").chosen(quick=quick)
    found = cylinder.deflections(s, lambda what, done, total: progress("Fig. 4", done, total))
    states = [
        found.filled[fluid].states[k] for fluid in cylinder.FLUIDS for k in cylinder.STAGES.values()
    ]
    titles = [
        f"{name.replace('+15 ml', '15 ml more')}: {angle:.1f}°"
        for name, angle in found.angles.items()
    ]
    drawn = pictures(cylinder.droop_scene(found.filled["water"].robot, np.array(states), ""))
    plots = (cylinder.angle_plot(found), cylinder.outline_plot(found))
    return Part(
        metrics={
            f"Fig. 4, {name}": metric
            for name, metric in cylinder.droop_metrics(found, int(s["grid"])).items()
        }
        | {
            "Fig. 4: columns near the exact weight: reached": Metric(
                value=bool(found.angle_difference <= cylinder.MAX_DIFFERENCE)
            )
        },
        plots=tuple(replace(plot, title=f"Fig. 4: {plot.title}") for plot in plots),
        notes=(cylinder.NOTE,),
        media=(
            write_panels(
                folder / "fig-4.png", [drawn[:2], drawn[2:]], [titles[:2], titles[2:]]
            ).name,
        ),
    )


def section_four(quick: bool) -> Part:
    """How the cylinder with water answers to a pressure: the merged constraint and the pressure
    alone beside the exact response."""
    robot = cylinder.cylinder(find("cylinder-air-water").chosen(quick=quick), "water")
    model = Quasistatic(
        replace(robot, actuators={"pump": Hydraulic(cavity="cavity", limits=(-1e5, 1e5))})
    )
    exact, joined, alone = responses(model, np.array([1000.0]))
    off = {"the merged constraint": joined, "the pressure alone": alone}
    return Part(
        metrics={
            f"Section IV: response by {name} compared with the exact one": Metric(
                value=100.0 * float(np.linalg.norm(way - exact) / np.linalg.norm(exact)),
                unit="%",
            )
            for name, way in off.items()
        }
    )


def without_liquid(eq: Equations, q: Array, u: Array) -> linalg.Solve:
    """The solve with the tangent that has no derivative of the weight, as in the paper."""
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


def responses(model: ImplicitModel, u: Array) -> tuple[Array, Array, Array]:
    """dq/dp of the free unknowns at the balance under a pressure u (1,) [Pa]: exact, by the merged
    constraint, by the pressure alone. The last two take the tangent without the derivative of the
    weight, as the paper does."""
    eq, step = model.equations, equilibrium(model, u)
    q, free = step.x, eq.free
    solve = without_liquid(eq, q, u)
    (pump, _), liquid = (
        eq.potentials[0],
        next(term for term, _ in eq.potentials if isinstance(term, AttachedLiquid)),
    )
    y = liquid.weights @ q.reshape(-1, 3) + liquid.offset
    weight = -(liquid.weights.T @ liquid.gradient(y, u)).ravel()[free]
    J_p = -eq.control_jacobian(q, u)[free].T
    J_a = merged_constraint(J_p, weight[None], np.array([pump.volume(y)]), solve)  # type: ignore[attr-defined]
    return model.linearize(step).dense_controls()[free, 0], solve(J_a)[:, 0], solve(J_p.T)[:, 0]


def figure_five(folder: Path, quick: bool, progress: Progress) -> Part:
    """Fig. 5: inverse control of the finger with water and with air, with the same targets."""
    s = find("finger-hydraulic").chosen(quick=quick)
    places = finger.curves(
        s, lambda what, done, total: progress("Fig. 5: where the tips can be", done, total)
    )
    tasks = {fluid: finger.task(s, fluid, places) for fluid in places}
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
            for name, m in finger.finger_metrics(places[fluid], target_task, result[fluid]).items()
        }
        faults = failures(target_task, result[fluid]) + finger.not_closest(
            places[fluid], result[fluid]
        )
        metrics[f"Fig. 5, {fluid}: targets or closest points: reached"] = Metric(value=not faults)
    titles = [
        [f"{fluid}, {said(name, one)}" for name in one.visits] for fluid, one in result.items()
    ]
    drawn = pictures(
        visits_scene(tasks["water"], list(result.values()), finger.VIEW),
        targets=np.concatenate(
            [list(target_task.targets.values()) for target_task in tasks.values()]
        ),
    )
    pairs = list(
        zip(drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :], strict=True)
    )  # water to the left, air to the right
    return Part(
        metrics=metrics,
        plots=(replace(finger.reach_plot(places, result), title="Fig. 5: Where the tip can be"),),
        notes=tuple(
            f"Fig. 5, {fluid}: {' '.join(controller_messages(one))}"
            for fluid, one in result.items()
        ),
        media=(write_panels(folder / "fig-5.png", pairs, list(zip(*titles, strict=True))).name,),
    )


def figure_six(folder: Path, quick: bool, progress: Progress) -> Part:
    """The pendulum, from the front and from below."""
    target_task = pendulum.task(find("pendulum-hydraulic").chosen(quick=quick))
    result = visit_targets(target_task, lambda what, done, total: progress("Fig. 6", done, total))
    targets, titles = (
        np.array(list(target_task.targets.values())),
        [said(name, result) for name in result.visits],
    )
    rows = [
        pictures(visits_scene(target_task, [result], view), targets=targets, size=(520, 600))
        for view in (FRONT, BOTTOM)
    ]
    plots = (*pendulum.place_plots(result), *follow_plots(target_task, result))
    metrics = {
        f"Fig. 6, {name}": metric
        for name, metric in pendulum.pendulum_metrics(target_task, result).items()
    }
    return Part(
        metrics={
            **metrics,
            "Fig. 6: targets or closest points: reached": Metric(
                value=not failures(target_task, result)
            ),
        },
        plots=tuple(replace(plot, title=f"Fig. 6: {plot.title}") for plot in plots),
        notes=(f"Fig. 6: {' '.join(controller_messages(result))}",),
        media=(write_panels(folder / "fig-6.png", rows, [titles, [""] * len(titles)]).name,),
    )


def visits_scene(
    target_task: TargetTask, result: Sequence[TargetTaskResult], view: tuple[float, float]
) -> Scene:
    """Robots of one shape as they settled at each of their targets, run after run."""
    settled = np.array([visit.pose.x for one in result for visit in one.visits.values()])
    return replace(
        target_scene(target_task, replace(result[0], states=settled), "", view),
        lines=(),
        targets=None,
    )


def said(name: str, result: TargetTaskResult) -> str:
    """A target and how near the effector is to it."""
    visit = result.visits[name]
    return f"{name}: there" if visit.reached else f"{name}: {1e3 * visit.pose.error:.1f} mm off"
