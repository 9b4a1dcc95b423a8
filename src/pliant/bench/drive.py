"""`pliant bench drive`: times of the control loop of `pliant drive` for a Diamond of 1,530 nodes
and four cables, without and with a connected page.

A control step handles messages, runs inverse control and encodes the frame for the page. The target
moves on a circle. Run as a module in a subprocess, so that each library is limited to one thread
before its import.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from pliant.bench.report import Report
from pliant.viewer.access import write_redirect_file
from pliant.viewer.chromium import chromium_flags, find_chromium
from pliant.viewer.driving import circle_targets, make_session
from pliant.viewer.loop import CONTROL_RATE, Loop
from pliant.viewer.server import Server
from pliant.viewer.session import Session
from pliant.zoo.robots import diamond

REQUIRED_RATE = 60.0  # [Hz]
MAX_INTERVAL = 33.0  # [ms] 99th percentile of the time between control steps
# of the FEM-QP loop of SOFA with 1,628 nodes and four cables, on another machine
SOFA = "22-25 ms per step"
RADIUS = 0.008  # [m] of the target's circle
# numbers of a case that the report shows as columns
COLUMNS = (
    "rate",
    "computing time p50",
    "computing time p99",
    "interval p99",
    "rate without pacing",
)
WARM_UP = 30  # control steps that are not timed
WARM_UP_FRAMES = 5  # frames that the page draws before the measurement starts


def measure(quick: bool) -> dict[str, Any]:
    steps = 60 if quick else 1200
    session = make_session(diamond(along=5 if quick else 42))
    out: dict[str, Any] = {
        "nodes": session.picture.rest.shape[0],
        "controls": session.robot.n_controls,
        "steps": steps,
    }
    out["without a page"] = measure_without_page(session, steps)
    session.handle_message({"type": "reset"})
    browser = find_chromium()
    out["with a page"] = (
        {"missing": "No Chromium or Chrome was found, so no page was connected."}
        if browser is None
        else asyncio.run(measure_with_page(session, steps, browser))
    )
    return out


def circling_target(session: Session) -> Callable[[Session], None]:
    """Return a function that moves the target on its circle at the control rate."""
    set_targets, steps = circle_targets(session, RADIUS), count()
    return lambda session: set_targets(session, next(steps) / CONTROL_RATE)


def measure_without_page(session: Session, steps: int) -> dict[str, float]:
    """Return rates and times of the loop without a page, at up to 60 Hz."""
    loop = Loop(session=session, before_step=circling_target(session))
    for _ in range(WARM_UP + steps):
        loop.step()
    return loop_statistics(loop, steps)


async def measure_with_page(session: Session, steps: int, browser: str) -> dict[str, Any]:
    """Return rates and times of the loop while a page in a browser draws the frames."""
    server = Server(loop=Loop(session=session, before_step=circling_target(session)))
    stop, url = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(server.run(url.set_result, stop))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [
            browser,
            *chromium_flags(),
            "--headless=new",
            "--window-size=1280,800",
            f"--user-data-dir={home}",
            write_redirect_file(await url).as_uri(),
        ]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return await _measure_while_drawing(server.loop, steps, child)
        finally:
            child.terminate()
            child.wait()
            stop.set()
            await running


async def _measure_while_drawing(loop: Loop, steps: int, child: subprocess.Popen) -> dict[str, Any]:
    """Return rates and times of `steps` control steps, counted after the page has drawn its first
    frames and while the browser is running."""
    deadline = time.monotonic() + 120.0
    while loop.frames < WARM_UP_FRAMES:
        if time.monotonic() > deadline:
            return {"missing": "The browser drew nothing within two minutes."}
        await asyncio.sleep(0.05)
    loop.step_times.clear()
    loop.step_intervals.clear()
    first_frame, start = loop.frames, time.perf_counter()
    while len(loop.step_intervals) < steps:
        if child.poll() is not None or loop.failure is not None:
            return {
                "missing": "The browser or the loop ended after "
                f"{len(loop.step_intervals)} of {steps} control steps."
            }
        await asyncio.sleep(0.05)
    frame_rate = (loop.frames - first_frame) / (time.perf_counter() - start)
    return {**loop_statistics(loop, steps), "frames": frame_rate}


def loop_statistics(loop: Loop, steps: int) -> dict[str, float]:
    """Return the rate [Hz], and percentiles [ms] of the computing time of the last control steps
    and of the intervals between them."""
    times, intervals = (
        1e3 * np.array(list(part)[-steps:]) for part in (loop.step_times, loop.step_intervals)
    )
    percentiles = {
        f"{name} p{percent}": float(np.percentile(part, percent))
        for name, part in (("computing time", times), ("interval", intervals))
        for percent in (50, 99)
    }
    return {
        "rate": 1e3 / float(intervals.mean()),
        "rate without pacing": 1e3 / float(times.mean()),
        **percentiles,
        "error": 1e3 * loop.session.error,
    }


def report(numbers: dict[str, Any]) -> Report:
    rows, notes = [], []
    for case in ("without a page", "with a page"):
        n = numbers[case]
        if "missing" in n:
            notes.append(n["missing"])
            continue
        rows.append(
            [
                case,
                *(f"{n[key]:.1f}" for key in COLUMNS),
                f"{n['frames']:.1f}" if "frames" in n else "-",
            ]
        )
        met = n["rate"] >= 0.99 * REQUIRED_RATE and n["interval p99"] <= MAX_INTERVAL
        notes.append(
            f"{case.capitalize()}: the required {REQUIRED_RATE:g} Hz and 99th percentile of "
            f"{MAX_INTERVAL:g} ms are {'met' if met else 'NOT met'}."
        )
    title = (
        f"Control loop of a Diamond, {numbers['nodes']:,} nodes, {numbers['controls']} cables, "
        f"quasistatic, {numbers['steps']} steps"
    )
    columns = [
        "",
        "rate [Hz]",
        "computing time p50 [ms]",
        "computing time p99 [ms]",
        "interval p99 [ms]",
        "rate without pacing [Hz]",
        "frames drawn [Hz]",
    ]
    return Report(tables=[(title, columns, rows)], notes=[*notes, *NOTES], numbers=numbers)


NOTES = [
    "The loop has one thread. The browser draws in its own processes, by software rendering if "
    "there is no graphics card.",
    "Computing time: messages, inverse control and the frame. The loop then sleeps until 1/60 s "
    "has passed; `rate without pacing` is the rate without this sleep.",
    f"For orientation: SOFA's FEM-QP loop with 1,628 nodes and four cables took {SOFA} on "
    "another machine. Therefore no ratio is given.",
]


if __name__ == "__main__":
    print(json.dumps(measure("quick" in sys.argv)))
