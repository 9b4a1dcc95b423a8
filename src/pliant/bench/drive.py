"""`pliant bench drive`: the whole loop of `pliant drive` on a Diamond of 1,530 nodes and four
cables, without a page and with one.

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
from pliant.viewer.drive import circle_targets, make_session
from pliant.viewer.loop import CONTROL_RATE, Loop
from pliant.viewer.server import Server
from pliant.viewer.session import Session
from pliant.zoo.robots import diamond

AIM = (60.0, 33.0)  # [Hz] and [ms] of the 99th percentile
SOFA = "22-25 ms a step"  # of its FEM-QP loop with 1,628 nodes and four cables, on another machine
RADIUS = 0.008  # [m] of the target's circle
FIRST, SEEN = (
    30,
    5,
)  # steps that only warm up, and frames that a page has drawn before it counts as attached


def measure(quick: bool) -> dict[str, Any]:
    steps = 60 if quick else 1200
    session = make_session(diamond(along=5 if quick else 42))
    out: dict[str, Any] = {
        "nodes": session.picture.rest.shape[0],
        "controls": session.robot.n_controls,
        "steps": steps,
    }
    out["without a page"] = alone(session, steps)
    session.handle_message({"type": "reset"})
    browser = find_chromium()
    out["with a page"] = (
        {"missing": "No Chromium or Chrome was found, so that no page was attached."}
        if browser is None
        else asyncio.run(watched(session, steps, browser))
    )
    return out


def round_and_round(session: Session) -> Callable[[Session], None]:
    """Return a function that moves the target on its circle at the control rate."""
    lead, steps = circle_targets(session, RADIUS), count()
    return lambda driven: lead(driven, next(steps) / CONTROL_RATE)


def alone(session: Session, steps: int) -> dict[str, float]:
    """The loop without a page, at most at 60 Hz."""
    loop = Loop(session=session, before_step=round_and_round(session))
    for _ in range(FIRST + steps):
        loop.step()
    return figures(loop, steps)


async def watched(session: Session, steps: int, browser: str) -> dict[str, Any]:
    """The loop while a page of a real browser draws it."""
    server = Server(loop=Loop(session=session, before_step=round_and_round(session)))
    stop, told = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(server.run(told.set_result, stop))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        words = [
            browser,
            *chromium_flags(),
            "--headless=new",
            "--window-size=1280,800",
            f"--user-data-dir={home}",
            write_redirect_file(await told).as_uri(),
        ]
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return await _drawn(server.loop, steps, child)
        finally:
            child.terminate()
            child.wait()
            stop.set()
            await running


async def _drawn(loop: Loop, steps: int, child: subprocess.Popen) -> dict[str, Any]:
    """Return the figures of `steps` control steps, counted after the page has drawn its first
    frames and while the browser is running."""
    latest = time.monotonic() + 120.0
    while loop.frames < SEEN:
        if time.monotonic() > latest:
            return {"missing": "The browser drew nothing within two minutes."}
        await asyncio.sleep(0.05)
    loop.step_times.clear()
    loop.step_intervals.clear()
    first, began = loop.frames, time.perf_counter()
    while len(loop.step_intervals) < steps:
        if child.poll() is not None or loop.failure is not None:
            return {
                "missing": "The browser or the loop ended after "
                f"{len(loop.step_intervals)} of {steps} control steps."
            }
        await asyncio.sleep(0.05)
    drawn = (loop.frames - first) / (time.perf_counter() - began)
    return {**figures(loop, steps), "frames": drawn}


def figures(loop: Loop, steps: int) -> dict[str, float]:
    """Return the rate [Hz], and percentiles [ms] of the computing time of the last control steps
    and of the intervals between them."""
    took, gaps = (
        1e3 * np.array(list(part)[-steps:]) for part in (loop.step_times, loop.step_intervals)
    )
    spread = {
        f"{name} {share}": float(np.percentile(part, share))
        for name, part in (("work", took), ("gap", gaps))
        for share in (50, 99)
    }
    return {
        "rate": 1e3 / float(gaps.mean()),
        "free": 1e3 / float(took.mean()),
        **spread,
        "error": 1e3 * loop.session.error,
    }


def report(numbers: dict[str, Any]) -> Report:
    rows, notes = [], []
    for way in ("without a page", "with a page"):
        n = numbers[way]
        if "missing" in n:
            notes.append(n["missing"])
            continue
        rows.append(
            [
                way,
                *(f"{n[key]:.1f}" for key in ("rate", "work 50", "work 99", "gap 99", "free")),
                f"{n['frames']:.1f}" if "frames" in n else "-",
            ]
        )
        met = n["rate"] >= 0.99 * AIM[0] and n["gap 99"] <= AIM[1]
        notes.append(
            f"{way.capitalize()}: {AIM[0]:g} Hz and a 99th percentile of {AIM[1]:g} ms are "
            f"{'met' if met else 'NOT met'}."
        )
    title = (
        f"The loop of a Diamond, {numbers['nodes']:,} nodes, {numbers['controls']} cables, "
        f"quasistatic, {numbers['steps']} steps"
    )
    columns = [
        "",
        "rate [Hz]",
        "work p50 [ms]",
        "work p99 [ms]",
        "interval p99 [ms]",
        "without pacing [Hz]",
        "frames drawn [Hz]",
    ]
    return Report(tables=[(title, columns, rows)], notes=[*notes, *NOTES], numbers=numbers)


NOTES = [
    "One thread for the loop; the browser draws in processes of its own, by the processor where "
    "there is no graphics card.",
    "Work: messages, inverse control and the frame. The loop rests until a sixtieth of a second "
    "has passed; without pacing it would not.",
    f"For orientation: SOFA's FEM-QP loop with 1,628 nodes and four cables took {SOFA} on "
    "another machine, so that there is no ratio.",
]


if __name__ == "__main__":
    print(json.dumps(measure("quick" in sys.argv)))
