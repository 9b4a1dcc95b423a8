"""Drive a robot: with a page in the browser, or without one along a script of targets."""

import asyncio
import csv
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from pliant.core import Array, InputError, StepError, nearest, require_positive
from pliant.dynamics import Quasistatic, SemiImplicit
from pliant.dynamics.overlaps import with_note
from pliant.planners import MOVING, inverse
from pliant.robot import Robot
from pliant.robot_files import Keyframes
from pliant.viewer.loop import FASTEST, Loop
from pliant.viewer.recording import Recording
from pliant.viewer.server import Server
from pliant.viewer.session import Session
from pliant.viewer.wish import FAR, REPLAY

SWAY = 0.03  # of the robot's size: radius of the circles that effectors are led on without a script
PERIOD = 4.0  # [s] of such a circle
LONGEST = 86_400.0  # [s] of a drive without a page; every tick is kept in memory


def session_of(
    robot: Robot,
    *,
    effectors: Sequence[str] = (),
    dynamic: bool = False,
    folder: Path | None = None,
    replayed: Recording | None = None,
) -> Session:
    """A robot ready to be driven: quasistatic, or with its inertia in steps of 1/60 s. Without
    `effectors` its first one follows."""
    _check_drivable(robot, effectors)
    if folder is not None:
        _make(folder)
    dt = 1.0 / FASTEST if dynamic else None
    model = (
        replace(Quasistatic(robot), dt=1.0 / FASTEST) if dt is None else SemiImplicit(robot, dt=dt)
    )  # moving supports go on in time
    chosen = tuple(effectors) or tuple(robot.effectors)[:1]
    held = (
        not model.equations.free_rigid_motions()
    )  # what nothing holds lies on what it meets, and cannot keep off it
    session = Session(
        robot=robot,
        active=chosen,
        dt=dt,
        folder=folder,
        replayed=replayed,
        make=lambda names: inverse(model, effectors=names, obstacles=held),
    )
    session.warm_up()
    return session


def _make(folder: Path) -> None:
    """A folder for recordings, or a sentence before anything is driven."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Recordings cannot be saved in {folder} ({error.strerror}); name a folder that can "
            "be written to."
        ) from None
    if not os.access(folder, os.W_OK):
        raise InputError(
            f"Recordings cannot be saved in {folder}, which may not be written to; name another "
            "folder."
        )


def _check_drivable(robot: Robot, effectors: Sequence[str]) -> None:
    if not robot.effectors:
        raise InputError(
            f"{robot.name} has no effector that could follow a target; add one, such as "
            "Effector(point=...)."
        )
    if not robot.n_controls:
        raise InputError(
            f"{robot.name} has no actuators, so that nothing can be driven; add one, such as a "
            "Cable."
        )
    for name in effectors:
        if name not in robot.effectors:
            raise InputError(
                f"{robot.name} has no effector '{name}'; {nearest(name, robot.effectors)}"
            )


def drive(
    session: Session,
    *,
    told: Callable[[str], None],
    port: int = 0,
    address: str = "127.0.0.1",
    allow_remote: bool = False,
) -> None:
    """Serve the page until Ctrl-C; `told` learns its address as soon as it is there."""
    server = Server(
        loop=Loop(session=session), address=address, port=port, allow_remote=allow_remote
    )
    with suppress(KeyboardInterrupt):  # where signals cannot be handled, as on Windows
        asyncio.run(_until_interrupt(server, told))
    _end_well(session)


def _end_well(session: Session, stopped: str = "") -> None:
    """A sentence where a session was stopped, or has lost its recording."""
    lost = f"{session.unsaved}; free the folder, and record again." if session.unsaved else ""
    if stopped or lost:
        raise StepError(f"{stopped} {lost}".strip())


async def _until_interrupt(server: Server, told: Callable[[str], None]) -> None:
    stop, here = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
            here.add_signal_handler(number, stop.set)
    await server.run(told, stop)


def check_duration(seconds: float) -> None:
    """Raise `InputError` unless a robot can be driven for so long without a page."""
    if require_positive("The time to drive", seconds, "s") > LONGEST:
        raise InputError(
            f"The time to drive is {seconds:g} s; it must be at most {LONGEST:g} s, a day."
        )


def headless(
    session: Session, *, seconds: float, script: Keyframes | None = None
) -> dict[str, float | str]:
    """Drive without a page, as fast as it goes, along a script of targets (values (n, n_effectors
    dim) [m]) or in small circles; a replay ends with its last row."""
    check_duration(seconds)
    ticks = max(1, round(seconds * FASTEST))
    if script is not None and session.played is not None:
        raise InputError("A replay has targets of its own; leave out the script or the replay.")
    replays = session.played is not None
    lead = sway(session) if script is None else _led(session, script)
    session.hear(
        {"say": "record", "on": True} if session.played is None else {"say": "pause", "on": False}
    )
    try:
        took, errors = _ticked(session, ticks, lead)
        stopped = f"After {len(took)} ticks: {session.said}" if session.wish.paused else ""
    finally:
        session.close()
    _end_well(session, stopped)
    figures = _figures(session, np.array(took), np.array(errors))
    return figures | ({"at the end": _replay_ending(session)} if replays else {})


def _ticked(
    session: Session, ticks: int, lead: Callable[[Session, float], None]
) -> tuple[list[float], list[float]]:
    """([s] that each tick took, [m] how far it was from its target), until the robot pauses or its
    replay is over."""
    took, errors, replays = [], [], session.played is not None
    for k in range(ticks):
        lead(session, k / FASTEST)
        began = time.perf_counter()
        session.tick(1.0 / FASTEST)
        if session.wish.paused:
            break
        took.append(time.perf_counter() - began)
        errors.append(session.error)
        if replays and session.played is None:
            break
    return took, errors


def _figures(session: Session, took: Array, errors: Array) -> dict[str, float | str]:
    """How fast it went, how far the effectors were from their targets, and what there is to say at
    the end."""
    steady = took[min(len(took) // 10, 60) :]
    said = {"said": session.trouble} if session.trouble else {}
    return {
        "ticks": len(took),
        "mean rate [Hz]": float(1.0 / steady.mean()),
        "p50 [ms]": 1e3 * float(np.percentile(steady, 50)),
        "p99 [ms]": 1e3 * float(np.percentile(steady, 99)),
        "error at the end [mm]": 1e3 * float(errors[-1]),
        "largest error [mm]": 1e3 * float(errors.max()),
        "at the end": _ending(session),
        **said,
    }


def _ending(session: Session) -> str:
    """The last state of the robot in words; one that still moved when the time was over says so."""
    if session.pose.state != MOVING:
        return session.text
    still = f"still moving when the time was over, {1e3 * session.error:.3g} mm from the target"
    return with_note(still, session.overlap)


def _replay_ending(session: Session) -> str:
    """The end of a replay in words."""
    ended = "replayed" if session.played is None else "the time was over before the replay ended"
    return f"{ended}; {session.overlap}" if session.overlap else ended


def sway(session: Session, radius: float | None = None) -> Callable[[Session, float], None]:
    """Leads each followed effector on a circle [m] through its first place, in a plane across the
    last axis."""
    reach = SWAY * session.picture.size if radius is None else radius
    first = {name: session.places[name] for name in session.active}

    def lead(session: Session, t: float) -> None:
        turn = 2.0 * np.pi * t / PERIOD
        move = np.zeros_like(next(iter(first.values())))
        move[0], move[1] = reach * np.sin(turn), reach * (1.0 - np.cos(turn))
        _aim(session, {name: at + move for name, at in first.items()})

    return lead


def _led(session: Session, script: Keyframes) -> Callable[[Session, float], None]:
    dim, names = len(next(iter(session.places.values()))), session.active
    if script.values.shape[1] != len(names) * dim:
        raise InputError(
            f"The script has {script.values.shape[1]} numbers a row beside the time, but there "
            f"must be {dim} for each of {', '.join(names)}; add or remove columns."
        )
    away = float(np.abs(script.values.reshape(-1, dim) - session.frame.middle).max())
    if away > FAR * session.frame.size:
        raise InputError(
            f"A target of the script is {away:.3g} m away from a robot of "
            f"{session.frame.size:.3g} m; give places in metres."
        )
    return lambda session, t: _aim(
        session, dict(zip(names, script(t).reshape(-1, dim), strict=True))
    )


def _aim(session: Session, targets: dict[str, Array]) -> None:
    if session.wish.mode != REPLAY:
        session.wish = replace(session.wish, targets={**session.wish.targets, **targets})


def load_script(path: Path) -> Keyframes:
    """Targets over time from CSV: a row holds the time [s] and the place [m] of each followed
    effector; a first row may name them."""
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.reader(file) if row]
        named = bool(rows) and not _is_number(rows[0][0])
        if named and not rows[0][0].strip().lower().startswith("t"):
            raise ValueError(f"its first column is '{rows[0][0].strip()[:20]}', not the time")
        numbers = [[float(cell) for cell in row] for row in rows[named:]]
        if (
            not numbers
            or len(numbers[0]) < 2
            or any(len(row) != len(numbers[0]) for row in numbers)
        ):
            raise ValueError("not every row has a time and as many places")
        return Keyframes(
            times=np.array([row[0] for row in numbers]),
            values=np.array([row[1:] for row in numbers]),
        )
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its name.") from None
    except (ValueError, csv.Error) as error:
        raise InputError(
            f"{path} is not a table of targets ({error}); write rows such as 0.5, 0.01, 0.02, 0.12."
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
