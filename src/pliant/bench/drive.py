"""`pliant bench drive`: the whole loop of `pliant drive` on a Diamond of 1,530 nodes and four
cables, without a page and with one.

A tick is what was said, inverse control, and the frame for the page; the target goes round in a
circle. Run as a module in a child process, so that every library is held to one thread before it is
imported.
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
from pliant.viewer.chromium import chromium_flags, find_chromium
from pliant.viewer.door import signpost
from pliant.viewer.drive import session_of, sway
from pliant.viewer.loop import FASTEST, Loop
from pliant.viewer.server import Server
from pliant.viewer.session import Session
from pliant.zoo.robots import diamond

AIM = (60.0, 33.0)  # [Hz] and [ms] of the 99th percentile
SOFA = "22-25 ms a step"  # of its FEM-QP loop with 1,628 nodes and four cables, on another machine
RADIUS = 0.008  # [m] of the target's circle
FIRST, SEEN = (
    30,
    5,
)  # ticks that only warm up, and frames that a page has drawn before it counts as attached


def measure(quick: bool) -> dict[str, Any]:
    ticks = 60 if quick else 1200
    session = session_of(diamond(along=5 if quick else 42))
    out: dict[str, Any] = {
        "nodes": session.picture.rest.shape[0],
        "controls": session.robot.n_controls,
        "ticks": ticks,
    }
    out["without a page"] = alone(session, ticks)
    session.hear({"say": "reset"})
    browser = find_chromium()
    out["with a page"] = (
        {"missing": "No Chromium or Chrome was found, so that no page was attached."}
        if browser is None
        else asyncio.run(watched(session, ticks, browser))
    )
    return out


def round_and_round(session: Session) -> Callable[[Session], None]:
    """What leads the target on its circle, a sixtieth of a second a tick."""
    lead, ticks = sway(session, RADIUS), count()
    return lambda driven: lead(driven, next(ticks) / FASTEST)


def alone(session: Session, ticks: int) -> dict[str, float]:
    """The loop without a page, at most at 60 Hz."""
    loop = Loop(session=session, steer=round_and_round(session))
    for _ in range(FIRST + ticks):
        loop.turn()
    return figures(loop, ticks)


async def watched(session: Session, ticks: int, browser: str) -> dict[str, Any]:
    """The loop while a page of a real browser draws it."""
    server = Server(loop=Loop(session=session, steer=round_and_round(session)))
    stop, told = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(server.run(told.set_result, stop))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        words = [
            browser,
            *chromium_flags(),
            "--headless=new",
            "--window-size=1280,800",
            f"--user-data-dir={home}",
            signpost(await told).as_uri(),
        ]
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return await _drawn(server.loop, ticks, child)
        finally:
            child.terminate()
            child.wait()
            stop.set()
            await running


async def _drawn(loop: Loop, ticks: int, child: subprocess.Popen) -> dict[str, Any]:
    """The figures of so many ticks after the page has drawn its first frames, while the browser is
    there."""
    latest = time.monotonic() + 120.0
    while loop.frames < SEEN:
        if time.monotonic() > latest:
            return {"missing": "The browser drew nothing within two minutes."}
        await asyncio.sleep(0.05)
    loop.took.clear()
    loop.gaps.clear()
    first, began = loop.frames, time.perf_counter()
    while len(loop.gaps) < ticks:
        if child.poll() is not None or loop.failure is not None:
            return {
                "missing": f"The browser or the loop ended after {len(loop.gaps)} of {ticks} ticks."
            }
        await asyncio.sleep(0.05)
    drawn = (loop.frames - first) / (time.perf_counter() - began)
    return {**figures(loop, ticks), "frames": drawn}


def figures(loop: Loop, ticks: int) -> dict[str, float]:
    """Of the last ticks: the rate [Hz], and [ms] of the work of a tick and of the time from tick to
    tick."""
    took, gaps = (1e3 * np.array(list(part)[-ticks:]) for part in (loop.took, loop.gaps))
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
        f"quasistatic, {numbers['ticks']} ticks"
    )
    columns = [
        "",
        "rate [Hz]",
        "work p50 [ms]",
        "work p99 [ms]",
        "tick to tick p99 [ms]",
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
