"""finger-hydraulic and finger-pneumatic: one finger, the same targets, filled with water or with
air (paper 002, Fig. 5)."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from scipy.interpolate import CubicSpline

from pliant.core import Array
from pliant.dynamics import Quasistatic, equilibrium
from pliant.report import Plot
from pliant.robot import Robot
from pliant.zoo.experiment import Experiment, Metric, Outcome, Run, Setting
from pliant.zoo.followed import (
    RATE,
    Lead,
    Led,
    follow_plots,
    lead,
    led_scene,
    metrics,
    probe_of,
    sayings,
    wrong,
)
from pliant.zoo.robots import hydraulic_finger

FLUIDS = {"finger-hydraulic": "water", "finger-pneumatic": "air"}
REACHED: Mapping[str, tuple[str, int]] = {
    "low": ("water", 1),
    "far horizontal": ("water", -2),
    "high": ("air", -2),
}  # fluid, place of its tip
BEYOND = {
    "above all": 0.015,
    "below all": -0.015,
}  # [m] above the highest place of either tip, and below the lowest
VIEW = (-75.0, 10.0)  # [degrees]
EXACT = 5e-5  # [m] what a spline through the places of a slow filling may be off

Curves = Mapping[
    str, Array
]  # fluid -> (fillings, 3) [m] the places of the tip, from the least filling to the most


def finger(s: Mapping[str, Setting], fluid: str) -> Robot:
    return hydraulic_finger(fluid=fluid, along=int(s["along"]), order=int(s["order"]))


def curve(robot: Robot, fillings: int) -> Array:
    """(fillings, 3) [m] where the tip is in balance, from the least filling to the most, in even
    steps."""
    model, x, out = Quasistatic(robot), None, []
    for u in np.linspace(*robot.control_limits(), fillings):
        x = equilibrium(model, u, x0=x).x
        out.append(robot.place("tip", x))
    return np.array(out)


def curves(
    s: Mapping[str, Setting],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Curves:
    """Every place that the tip can be at, for each fluid."""
    out = {}
    for k, fluid in enumerate(FLUIDS.values()):
        progress("filling slowly", k, len(FLUIDS))
        out[fluid] = curve(finger(s, fluid), int(s["fillings"]))
    progress("filling slowly", len(FLUIDS), len(FLUIDS))
    return out


def task(s: Mapping[str, Setting], fluid: str, places: Curves) -> Lead:
    """The targets are the same for both fluids: places of the tip with one of them, and some with
    none."""
    targets = {name: places[whose][k] for name, (whose, k) in REACHED.items()}
    for name, way in BEYOND.items():
        every = np.concatenate(list(places.values()))
        targets[name] = every[np.argmax(np.sign(way) * every[:, 2])] + np.array([0.0, 0.0, way])
    reachable = {name: name in REACHED and REACHED[name][0] == fluid for name in targets}
    return Lead(robot=finger(s, fluid), targets=targets, reachable=reachable, glide=int(s["glide"]))


def nearest(places: Array, target: Array) -> float:
    """[m] from a target to the nearest place of a tip that goes smoothly through places (n, 3)."""
    fine = CubicSpline(np.linspace(0.0, 1.0, len(places)), places)(np.linspace(0.0, 1.0, 4001))
    return float(np.linalg.norm(fine - target, axis=1).min())


def perform_with(fluid: str) -> Callable[[Run], Outcome]:
    def perform(run: Run) -> Outcome:
        places = curves(run.settings, run.progress)
        wish = task(run.settings, fluid, places)
        led = lead(wish, run.progress)
        run.keep(led.states, led.controls, dt=1.0 / RATE)
        faults = wrong(wish, led) + not_nearest(places[fluid], led)
        return Outcome(
            metrics=finger_metrics(places[fluid], wish, led),
            plots=[reach_plot(places, {fluid: led}), *follow_plots(wish, led)],
            scene=led_scene(wish, led, run.identity, VIEW),
            reached=not faults,
            sentence="; ".join(faults) or "done",
            notes=sayings(led),
        )

    return perform


def finger_metrics(places: Array, wish: Lead, led: Led) -> dict[str, Metric]:
    near = {
        f"{name}: nearest that a slow filling comes": nearest(places, visit.target)
        for name, visit in led.visits.items()
    }
    heights = {"lowest tip": places[:, 2].min(), "highest tip": places[:, 2].max()}
    return {
        **metrics(wish, led),
        **{
            name: Metric(value=1e3 * float(way), unit="mm")
            for name, way in {**near, **heights}.items()
        },
    }


def not_nearest(places: Array, led: Led) -> list[str]:
    """A sentence for each target that a slow filling comes nearer to than the controller."""
    return [
        f"'{name}' was left {1e3 * visit.pose.error:.3g} mm away, but "
        f"{1e3 * nearest(places, visit.target):.3g} mm can be had"
        for name, visit in led.visits.items()
        if visit.pose.error > nearest(places, visit.target) + EXACT
    ]


def reach_plot(places: Curves, led: Mapping[str, Led]) -> Plot:
    """Where the tip can be, the targets, and where it was led to."""
    visits = {fluid: one.visits.values() for fluid, one in led.items()}
    targets = np.array([visit.target for visit in next(iter(visits.values()))])
    ends = {
        f"led with {fluid}": np.array([visit.pose.places[0] for visit in own])
        for fluid, own in visits.items()
    }
    return Plot(
        title="Where the tip can be",
        x="x [mm]",
        y="z [mm]",
        kind="both",
        series={
            **{
                f"with {fluid}": (1e3 * line[:, 0], 1e3 * line[:, 2])
                for fluid, line in places.items()
            },
            **{name: _apart(points) for name, points in {"targets": targets, **ends}.items()},
        },
    )


def _apart(points: Array) -> tuple[Array, Array]:
    """x and z [mm] of points (n, 3) [m] with gaps between them, so that no line is drawn."""
    x, _, z = 1e3 * points.T
    return np.repeat(x, 2), np.stack([z, np.full_like(z, np.nan)], axis=1).ravel()


EXPERIMENTS = tuple(
    Experiment(
        name=name,
        paper="002",
        shows=f"a soft finger filled with {fluid} is led to low, far and high targets, the same as "
        f"with {other}, or as near as it gets",
        size="1,188 nodes, 1 cavity, 5 targets",
        takes="30 s",
        perform=perform_with(fluid),
        probe=probe_of(partial(finger, fluid=fluid)),
        settings={"along": 5, "order": 2, "fillings": 11, "glide": 20, "small_film": False},
        quick={"along": 4, "order": 1, "fillings": 6, "glide": 3, "small_film": True},
    )
    for (name, fluid), other in zip(FLUIDS.items(), ("air", "water"), strict=True)
)
