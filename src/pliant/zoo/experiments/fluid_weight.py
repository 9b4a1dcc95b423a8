"""fluid-sphere and fluid-bunny-like: the weight of water in a closed surface, by columns and
exactly [Rodriguez2017, Table I]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial.transform import Rotation

from pliant.actuators import Hydraulic
from pliant.core import Array, InputError
from pliant.dynamics import Quasistatic, equilibrium
from pliant.geometry import ClosedCylinder, Surface, hare_surface, icosphere
from pliant.hydrostatics import HydrostaticLoad, column_weights, hydrostatic_load, volume_properties
from pliant.materials import Material
from pliant.report import DrawnScene, Plot
from pliant.robot import Effector, Robot, Support
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.timing import timed

WATER, GRAVITY = 1000.0, np.array([0.0, 0.0, -9.81])  # [kg/m^3], [m/s^2]
GRIDS = (30, 50, 100, 200, 500, 1000, 1500)
CUBIC_CM = 1e6  # per cubic metre


@dataclass(frozen=True, kw_only=True)
class Published:
    """One half of the paper's Table I, by grid."""

    triangles: int
    exact: float  # [cm^3]
    volume: tuple[float, ...]  # [cm^3]
    gpu: tuple[float, ...]  # [ms] on a GeForce GTX 960
    cpu: tuple[float, ...]  # [ms] on a Xeon W3550


SPHERE = Published(
    triangles=5120,
    exact=4.1798,
    volume=(4.1835, 4.1828, 4.1804, 4.1799, 4.1798, 4.1798, 4.1798),
    gpu=(0.29, 0.31, 0.37, 0.57, 0.86, 2.65, 5.29),
    cpu=(0.63, 0.93, 2.24, 7.63, 41.77, 160.75, 358.81),
)
BUNNY = Published(
    triangles=90760,
    exact=1.7165,
    volume=(1.1414, 1.6709, 1.7154, 1.7164, 1.7165, 1.7165, 1.7165),
    gpu=(0.65, 0.75, 0.84, 1.06, 1.27, 2.79, 4.90),
    cpu=(3.97, 7.07, 9.57, 15.64, 54.16, 186.66, 394.95),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightTable:
    """Volumes, times and errors of one closed surface."""

    grids: tuple[int, ...]
    volumes: Array  # (grids,) [m^3]
    times: Array  # (grids,) [ms]
    volume: float  # [m^3], exact
    time: float  # [ms], of the exact forces
    weight_error: float  # relative, of the sum of the exact forces
    # of the torque about the centroid, relative to weight times size
    torque_error: float

    @property
    def errors(self) -> Array:
        """Volume errors (grids,) [%] of the columns."""
        return 100.0 * (self.volumes / self.volume - 1.0)


def weight_table(
    surface: Surface, grids: tuple[int, ...], repeats: int, report: Callable[[int], None]
) -> WeightTable:
    """Measure the columns at each grid and the exact forces. `report` gets the number of grids
    done."""
    columns = partial(
        column_weights, surface.points, surface.triangles, density=WATER, gravity=GRAVITY
    )
    exact = partial(
        hydrostatic_load, surface.points, surface.triangles, density=WATER, gravity=GRAVITY
    )
    volumes, times = [], []
    for k, grid in enumerate(grids):
        volumes.append(columns(grid=grid).volume)
        times.append(timed(partial(columns, grid=grid), repeats))
        report(k + 1)
    return WeightTable(
        grids=grids,
        volumes=np.array(volumes),
        times=np.array(times),
        volume=exact().volume,
        time=timed(exact, repeats),
        **_errors(surface, exact()),
    )


def _errors(surface: Surface, load: HydrostaticLoad) -> dict[str, float]:
    """Return the relative errors of the sum and the torque of the exact forces."""
    centroid, weight = (
        volume_properties(surface.points, surface.triangles).centroid,
        WATER * load.volume * GRAVITY,
    )
    magnitude = float(np.linalg.norm(weight))
    torque = np.cross(surface.points - centroid, load.forces).sum(axis=0)
    return {
        "weight_error": float(np.abs(load.forces.sum(axis=0) - weight).max()) / magnitude,
        "torque_error": float(
            np.abs(torque).max() / (magnitude * np.ptp(surface.points, axis=0).max())
        ),
    }


def perform(
    run: ExperimentRun,
    make_surface: Callable[[int], Surface],
    published: Published,
    same_surface: bool,
) -> Outcome:
    """Run the experiment. `same_surface` is true if the paper has the same surface."""
    s = run.settings
    surface, grids = make_surface(int(s["mesh_resolution"])), selected_grids(s)
    table = weight_table(
        surface,
        grids,
        int(s["repeats"]),
        lambda done: run.progress("computing weights", done, len(grids)),
    )
    error, paper_error = table.errors, 100.0 * (np.array(published.volume) / published.exact - 1.0)
    metrics = {
        "volume, exact": Metric(
            value=CUBIC_CM * table.volume,
            unit="cm^3",
            paper=published.exact if same_surface else None,
        ),
        "computing time, exact": Metric(value=table.time, unit="ms"),
        "triangles": Metric(value=len(surface.triangles), paper=published.triangles),
        "weight error, exact": Metric(value=table.weight_error),
        "torque error, exact": Metric(value=table.torque_error),
    }
    for k, grid in enumerate(grids):
        at = f"{grid} x {grid} columns"
        metrics[f"volume, {at}"] = Metric(
            value=CUBIC_CM * table.volumes[k],
            unit="cm^3",
            paper=published.volume[k] if same_surface else None,
        )
        metrics[f"volume error, {at}"] = Metric(
            value=float(error[k]), unit="%", paper=round(float(paper_error[k]), 4)
        )
        metrics[f"computing time, {at}"] = Metric(
            value=float(table.times[k]), unit="ms", paper=published.cpu[k]
        )
    reached = table.weight_error < 1e-12 and table.torque_error < 1e-12 and abs(error[-1]) < 0.1
    return Outcome(
        metrics=metrics,
        plots=plots(table, published, paper_error),
        scene=rotating_scene(
            make_surface(int(s["animation_resolution"])),
            int(s["frames"]),
            min(200, grids[-1]),
            run.identity,
        ),
        reached=reached,
        message="done"
        if reached
        else f"the volume error of the columns is {abs(error[-1]):.2g} %, the weight error of the "
        f"exact forces {table.weight_error:.1e}. Use a finer grid.",
        notes=[
            "The paper's times are for one core of a Xeon W3550. On a GeForce GTX 960 it "
            f"reports {', '.join(f'{ms:g}' for ms in published.gpu)} ms for the grids of "
            f"{', '.join(map(str, GRIDS))}.",
            *(
                []
                if same_surface
                else [
                    "The paper's bunny is another shape with about as many triangles: its errors "
                    "and times are comparable, its volume is not."
                ]
            ),
        ],
    )


def selected_grids(settings: Mapping[str, Setting]) -> tuple[int, ...]:
    """Return the grids of the paper up to `max_grid`. Raises `InputError` if there are none."""
    grids = tuple(grid for grid in GRIDS if grid <= int(settings["max_grid"]))
    if not grids:
        raise InputError(
            f"The setting max_grid is {settings['max_grid']}. Use at least {GRIDS[0]}, the columns "
            "along a side of the paper's coarsest grid."
        )
    return grids


def plots(table: WeightTable, published: Published, paper_error: Array) -> list[Plot]:
    """Return plots of volume error and computing time over the number of columns."""
    all_grids, grids = np.array(GRIDS, dtype=float), np.array(table.grids, dtype=float)
    # An error of zero at the paper's precision is not drawn.
    published_error = np.where(paper_error == 0.0, np.nan, np.abs(paper_error))
    return [
        Plot(
            title="Volume error of the columns",
            x="columns along a side",
            y="error [%]",
            log_x=True,
            log_y=True,
            kind="both",
            series={"Pliant": (grids, np.abs(table.errors)), "paper": (all_grids, published_error)},
        ),
        Plot(
            title="Computing time",
            x="columns along a side",
            y="time [ms]",
            log_x=True,
            log_y=True,
            kind="both",
            series={
                "Pliant, columns": (grids, table.times),
                "paper, CPU": (all_grids, np.array(published.cpu)),
                "paper, GPU": (all_grids, np.array(published.gpu)),
            },
            references={"Pliant, exact": table.time},
        ),
    ]


def rotating_scene(surface: Surface, frames: int, grid: int, title: str) -> DrawnScene:
    """Return a scene of the weight on each node, seen from below, while the surface rotates."""
    frame_points, weights = [], []
    for k in range(frames):
        points = Rotation.from_euler("y", np.sin(2.0 * np.pi * k / frames)).apply(
            np.array(surface.points)
        )
        frame_points.append(points)
        weights.append(
            1e6
            * column_weights(
                points, surface.triangles, grid=grid, density=WATER, gravity=GRAVITY
            ).weights
        )
    return DrawnScene(
        frames=np.array(frame_points),
        facets=surface.triangles,
        values=np.array(weights),
        value_label="weight [µN]",
        dt=None,
        view=(-60.0, -25.0),
        title=f"{title}: the water's weight on each node",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a rubber can filled with water. The surfaces of these experiments do not deform."""
    can = Robot(
        name="can",
        shape=ClosedCylinder(radius=0.02, wall=0.004, length=0.06, cap=0.006),
        divisions=(6, 2, 1),
        order=1,
        material=Material(E=5e4, nu=0.4),
        supports=[Support(region="bottom")],
        gravity=(2.0, 0.0, -9.0),
        actuators={"water": Hydraulic(cavity="cavity", density=WATER, limits=(-1e5, 1e5))},
        effectors={"lid": Effector(surface="top")},
    )
    model, u = Quasistatic(can, design=("body.E",)), np.array([200.0])
    return model, equilibrium(model, u).x, u


def experiment(
    name: str,
    shows: str,
    size: str,
    takes: str,
    make_surface: Callable[[int], Surface],
    published: Published,
    settings: Mapping[str, Setting],
    quick: Mapping[str, Setting],
) -> Experiment:
    """Return an experiment for one surface. `make_surface` takes the mesh resolution."""
    return Experiment(
        name=name,
        paper="002",
        shows=shows,
        size=size,
        takes=takes,
        check_settings=selected_grids,
        probe=probe,
        perform=partial(
            perform,
            make_surface=make_surface,
            published=published,
            same_surface=published is SPHERE,
        ),
        settings={"max_grid": GRIDS[-1], "repeats": 5, "small_animation": False, **settings},
        quick={"max_grid": 200, "repeats": 2, "small_animation": True, **quick},
    )


EXPERIMENTS = (
    experiment(
        "fluid-sphere",
        "weight of the water in a sphere, by 30 x 30 to 1500 x 1500 columns and exactly, as in "
        "the paper's table",
        "5,120 triangles",
        "20 s",
        lambda n: icosphere(0.01, subdivisions=n),
        SPHERE,
        {"mesh_resolution": 4, "animation_resolution": 3, "frames": 48},
        {"mesh_resolution": 4, "animation_resolution": 2, "frames": 8},
    ),
    experiment(
        "fluid-bunny-like",
        "the same in a hare-shaped surface, where a column crosses the water several times",
        "89,780 triangles",
        "40 s",
        lambda n: hare_surface(0.02, divisions=n),
        BUNNY,
        {"mesh_resolution": 67, "animation_resolution": 30, "frames": 48},
        {"mesh_resolution": 20, "animation_resolution": 12, "frames": 8},
    ),
)
