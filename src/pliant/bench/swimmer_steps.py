"""Steps of the swimmer of [Jia2019]: the model, and environments beside gymnasium's MuJoCo
Swimmer."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from pliant.bench.peers.mujoco_swimmer import mujoco_facts, mujoco_steps
from pliant.core import Array, MissingExtra
from pliant.swimming import SwimmerModel
from pliant.zoo.environments import make_env, make_vector_env
from pliant.zoo.robots import swimmer
from pliant.zoo.timing import timed

REQUIRED_TIME = 30.0  # [us] of a step on the surrogate
BATCH = 64  # states or environments at once
DT = 0.02  # [s]
AT_LEAST = 0.2  # [s] of measured time, since a step is short
Table = tuple[str, list[str], list[list[str]]]


def measure_steps(quick: bool) -> dict[str, Any]:
    """Return the times [us] of a step of the model, and environment steps per second."""
    repeats, points = (3, 60) if quick else (15, 353)
    rates: dict[str, dict[str, float]] = {}
    out: dict[str, Any] = {
        "batch": BATCH,
        "environments": rates,
        "model": {method: _model_times(method, points, repeats) for method in ("rk4", "euler")},
    }
    steps = 50 if quick else 500
    try:
        rates["Pliant"] = environment_rates(pliant_steps(points), steps, repeats)
        rates["MuJoCo"] = environment_rates(mujoco_steps, steps, repeats)
        out["mujoco"] = mujoco_facts()
    except MissingExtra as error:
        out["missing"] = str(error)
    return out


def _model_times(method: str, points: int, repeats: int) -> dict[str, float]:
    """Return the time [us] of a step: alone, with its Jacobian, and in batches with one thread and
    with two."""
    model = SwimmerModel(swimmer(), dt=DT, cell=0.6, points=points, method=method)
    x, u = bent_state(model), 0.5 * model.control_limits()[1]
    many, controls = np.tile(x, (BATCH, 1)), np.tile(u, (BATCH, 1))
    step = model.step(x, u)
    one_x, one_u = x[None], u[None]
    numba.set_num_threads(1)

    def time(work: Callable[[], Any], count: int = 1) -> float:
        return 1e3 * timed(work, repeats, AT_LEAST) / count

    out = {
        "single": time(lambda: model.step(x, u)),
        "Jacobian": time(lambda: model.jacobians(one_x, one_u)),
        "linearised": time(lambda: model.linearize(step)),
    }
    for threads in (1, 2):
        numba.set_num_threads(threads)
        out[f"batch, {threads}"] = time(lambda: model.step_many(many, controls), BATCH)
    return out


def bent_state(model: SwimmerModel) -> Array:
    """Return a moving state with bent hinges."""
    n = model.robot.n_angles
    angles = 0.2 * (-1.0) ** np.arange(n)
    return model.state(angles=angles, velocities=np.concatenate([np.full(6, 0.05), np.ones(n)]))


def pliant_steps(points: int) -> Callable[[int, int], Callable[[], None]]:
    """Return a function like `mujoco_steps` for the swimmer of Pliant."""

    def make(count: int, steps: int) -> Callable[[], None]:
        settings: dict[str, Any] = {"points": points, "cell": 0.6}
        env = (
            make_env("pliant/Swimmer-v0", **settings)
            if count == 1
            else make_vector_env("pliant/Swimmer-v0", num_envs=count, threads=2, **settings)
        )
        # the same actions in each run, so that no run meets new cells after the first one
        actions = np.random.default_rng(0).uniform(-1.0, 1.0, (steps, *env.action_space.shape))

        def run() -> None:
            env.reset(seed=0)
            for action in actions:
                _, _, terminated, truncated, _ = env.step(action)
                if count == 1 and (terminated or truncated):
                    env.reset(seed=0)

        return run

    return make


def environment_rates(
    make: Callable[[int, int], Callable[[], None]], steps: int, repeats: int
) -> dict[str, float]:
    """Return environment steps per second, of one environment and of a batch."""
    single, batch = make(1, steps), make(BATCH, max(steps // 10, 1))
    numba.set_num_threads(2)
    return {
        "single": 1e3 * steps / timed(single, repeats),
        "batch": 1e3 * BATCH * max(steps // 10, 1) / timed(batch, repeats),
    }


def steps_tables(numbers: dict[str, Any]) -> list[Table]:
    """Return a table of model steps and a table of environment steps."""
    b = numbers["batch"]
    columns = [
        "method",
        "step [us]",
        "step and Jacobian [us]",
        f"step of {b}, 1 thread [us]",
        f"step of {b}, 2 threads [us]",
    ]
    rows = [
        [
            method,
            f"{t['single']:.0f}",
            f"{t['single'] + t['Jacobian']:.0f}",
            f"{t['batch, 1']:.0f}",
            f"{t['batch, 2']:.0f}",
        ]
        for method, t in numbers["model"].items()
    ]
    rates = [
        [library, f"{r['single']:,.0f}", f"{r['batch']:,.0f}"]
        for library, r in numbers["environments"].items()
    ]
    return [
        ("Swimmer with four links on the surrogate", columns, rows),
        (
            "Environment steps per second",
            ["library", "one environment", f"{b} environments"],
            rates,
        ),
    ]


def steps_notes(numbers: dict[str, Any]) -> list[str]:
    """Return what the tables compare."""
    notes = [
        f"A step of the model takes {numbers['model']['rk4']['single']:.0f} us with the "
        f"fourth-order rule (required: {REQUIRED_TIME:.0f} us), which uses four values of the "
        "added mass; Euler's rule uses one."
    ]
    if "missing" in numbers:
        return [*notes, numbers["missing"]]
    facts = numbers["mujoco"]
    return [
        *notes,
        "Environments: pliant/Swimmer-v0 (four links, exact potential flow on a grid, one step of "
        f"{DT:g} s) and Swimmer-v5 of gymnasium (three links, drag, {facts['substeps']} steps for "
        f"{facts['dt']:g} s). The models differ, so this compares the cost of a training step. "
        "Batches: VectorEnv with two threads, and gymnasium's synchronous vector.",
    ]
