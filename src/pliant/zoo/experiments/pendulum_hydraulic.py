"""pendulum-hydraulic: four cavities of water extend a hanging pendulum, contract it and bend it to
all sides (paper 002, Fig. 6)."""

from collections.abc import Mapping

import numpy as np

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
from pliant.zoo.robots import hydraulic_pendulum

# Shares of the range of the four controls that would hold the tip at each target, the cavity
# towards x first
HELD: Mapping[str, tuple[float, ...]] = {
    "extended": (0.9, 0.9, 0.9, 0.9),
    "contracted": (0.1, 0.1, 0.1, 0.1),
    "to +x": (0.05, 0.45, 0.85, 0.45),
    "to +y": (0.45, 0.05, 0.45, 0.85),
    "to -x -y": (0.8, 0.8, 0.1, 0.1),
}
ASIDE = (0.03, 0.0, 0.0)  # [m] from where it begins, out of reach
VIEW = (-70.0, 10.0)  # [degrees]
MIDDLE = 0.45  # of the range: where it begins, so that it can contract as well


def pendulum(s: Mapping[str, Setting]) -> Robot:
    return hydraulic_pendulum(
        divisions=(2, int(s["around"]), int(s["layers"])), order=int(s["order"])
    )


def task(s: Mapping[str, Setting]) -> Lead:
    robot = pendulum(s)
    lower, upper = robot.control_limits()
    at = {
        name: lower + np.array(share) * (upper - lower)
        for name, share in {**HELD, "": 4 * (MIDDLE,)}.items()
    }
    model = Quasistatic(robot)
    middle = equilibrium(model, at[""])
    places = {
        name: robot.place("tip", equilibrium(model, u, x0=middle.x).x) for name, u in at.items()
    }
    targets = {
        **{name: places[name] for name in HELD},
        "too far aside": places[""] + np.array(ASIDE),
    }
    return Lead(
        robot=robot,
        targets=targets,
        reachable={name: name in HELD for name in targets},
        start=at[""],
        glide=int(s["glide"]),
    )


def perform(run: Run) -> Outcome:
    run.progress("choosing the targets", 0, 1)
    wish = task(run.settings)
    run.progress("choosing the targets", 1, 1)
    led = lead(wish, run.progress)
    run.keep(led.states, led.controls, dt=1.0 / RATE)
    faults = wrong(wish, led)
    return Outcome(
        metrics=pendulum_metrics(wish, led),
        plots=[*place_plots(led), *follow_plots(wish, led)],
        scene=led_scene(wish, led, run.identity, VIEW),
        reached=not faults,
        sentence="; ".join(faults) or "done",
        notes=sayings(led),
    )


def pendulum_metrics(wish: Lead, led: Led) -> dict[str, Metric]:
    ends = {name: 1e3 * visit.pose.places[0] for name, visit in led.visits.items()}
    aside = {
        f"{name}: aside": float(np.linalg.norm(end[:2]))
        for name, end in ends.items()
        if name.startswith("to ")
    }
    ways = {
        "from contracted to extended": float(ends["contracted"][2] - ends["extended"][2]),
        **aside,
    }
    return {
        **metrics(wish, led),
        **{name: Metric(value=way, unit="mm") for name, way in ways.items()},
    }


def place_plots(led: Led) -> list[Plot]:
    """Each coordinate of the tip and of its target over ticks."""
    ticks = np.arange(1, len(led.wanted) + 1)
    return [
        Plot(
            title=f"tip: {axis}",
            x="tick",
            y=f"{axis} [mm]",
            series={
                "target": (ticks, 1e3 * led.wanted[:, k]),
                "tip": (ticks, 1e3 * led.places[1:, k]),
            },
        )
        for k, axis in enumerate("xyz")
    ]


EXPERIMENT = Experiment(
    name="pendulum-hydraulic",
    paper="002",
    shows="four cavities of water extend, contract and bend a hanging pendulum, led by its tip; a "
    "target too far is said to be so",
    size="1,935 nodes, 4 cavities, 6 targets",
    takes="2 min",
    perform=perform,
    probe=probe_of(pendulum),
    settings={"around": 3, "layers": 1, "order": 2, "glide": 20, "small_film": False},
    quick={"order": 1, "glide": 3, "small_film": True},
)
