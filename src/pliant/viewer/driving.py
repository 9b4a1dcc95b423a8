"""Drive a robot from a page in the browser, or headless along a script of targets."""

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

from pliant.core import Array, InputError, StepError, counted, nearest, require_positive
from pliant.dynamics import Quasistatic, SemiImplicit
from pliant.dynamics.overlaps import with_note
from pliant.planners import MOVING
from pliant.planners.inverse_control import inverse_control
from pliant.robot import Robot
from pliant.robot_files import Keyframes
from pliant.swimming import LinkedRobot
from pliant.viewer.command import MAX_TARGET_DISTANCE, REPLAY
from pliant.viewer.loop import CONTROL_RATE, Loop
from pliant.viewer.recording import Recording
from pliant.viewer.server import Server
from pliant.viewer.session import Session

CIRCLE_RADIUS = 0.03  # robot sizes; radius of the target circles of a headless run without script
CIRCLE_PERIOD = 4.0  # [s] of such a circle
MAX_DURATION = 86_400.0  # [s] of a headless run, since every control step is stored in memory


def make_session(
    robot: Robot | LinkedRobot,
    *,
    effectors: Sequence[str] = (),
    dynamic: bool = False,
    folder: Path | None = None,
    replay: Recording | None = None,
) -> Session:
    """Return a session of a robot, quasistatic or dynamic with a time step of 1/60 s.

    `effectors` names the effectors that follow targets; by default the first one does. Recordings
    are saved in `folder`. `replay` is played at the start.

    Raises `InputError` if the robot is not soft, has no effector or actuator, or the folder is not
    writable.
    """
    if not isinstance(robot, Robot):
        raise InputError(
            f"{robot.name} is made of rigid links, and inverse control drives soft robots only. "
            'Plan its motion: give its robot file a [task] with type = "plan" and goals, and use '
            "`pliant run FILE.toml`."
        )
    _check_drivable(robot, effectors)
    if folder is not None:
        _create_folder(folder)
    dt = 1.0 / CONTROL_RATE if dynamic else None
    # The time step also advances moving supports and loads of a quasistatic model.
    model = Quasistatic(robot, dt=1.0 / CONTROL_RATE) if dt is None else SemiImplicit(robot, dt=dt)
    chosen = tuple(effectors) or tuple(robot.effectors)[:1]
    # An unsupported robot rests on its obstacles and cannot avoid them.
    supported = not model.equations.free_rigid_motions()
    session = Session(
        robot=robot,
        active=chosen,
        dt=dt,
        folder=folder,
        last_recording=replay,
        make_controller=lambda names: inverse_control(model, effectors=names, obstacles=supported),
    )
    session.warm_up()
    return session


def _create_folder(folder: Path) -> None:
    """Create a folder for recordings. Raises `InputError` if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Recordings cannot be saved in {folder} ({error.strerror}); give a writable folder."
        ) from None
    if not os.access(folder, os.W_OK):
        raise InputError(
            f"Recordings cannot be saved in {folder}, which is not writable; give another folder."
        )


def _check_drivable(robot: Robot, effectors: Sequence[str]) -> None:
    if not robot.effectors:
        raise InputError(
            f"{robot.name} has no effector to follow a target; add one, such as "
            "Effector(point=...)."
        )
    if not robot.n_controls:
        raise InputError(
            f"{robot.name} has no actuators and cannot be driven; add one, such as a Cable."
        )
    for name in effectors:
        if name not in robot.effectors:
            raise InputError(
                f"{robot.name} has no effector '{name}'; {nearest(name, robot.effectors)}"
            )


def drive(
    session: Session,
    *,
    on_ready: Callable[[str], None],
    port: int = 0,
    address: str = "127.0.0.1",
    allow_remote: bool = False,
) -> None:
    """Serve the page until Ctrl-C. Call `on_ready` with its URL as soon as it is available."""
    server = Server(
        loop=Loop(session=session), address=address, port=port, allow_remote=allow_remote
    )
    with suppress(KeyboardInterrupt):  # if signal handlers are unavailable, as on Windows
        asyncio.run(_serve_until_interrupt(server, on_ready))
    _raise_failures(session)


def _raise_failures(session: Session, stopped: str = "") -> None:
    """Raise `StepError` if a session stopped early or its recording was not saved."""
    unsaved = (
        f"{session.save_error}. Free space in the folder, and record again."
        if session.save_error
        else ""
    )
    if stopped or unsaved:
        raise StepError(f"{stopped} {unsaved}".strip())


async def _serve_until_interrupt(server: Server, on_ready: Callable[[str], None]) -> None:
    stop, here = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
            here.add_signal_handler(number, stop.set)
    await server.run(on_ready, stop)


def check_duration(seconds: float) -> None:
    """Raise `InputError` unless the duration of a headless run is valid."""
    if require_positive("The duration", seconds, "s") > MAX_DURATION:
        raise InputError(
            f"The duration is {seconds:g} s; it must be at most {MAX_DURATION:g} s, a day."
        )


def headless(
    session: Session, *, seconds: float, script: Keyframes | None = None
) -> dict[str, float | str]:
    """Drive without a page and without pacing, and return metrics of the run.

    The targets follow `script` (values (n, n_effectors * dim) [m]) or small circles. A replay ends
    with its last row. Raises `StepError` if a control step fails.
    """
    check_duration(seconds)
    steps = max(1, round(seconds * CONTROL_RATE))
    if script is not None and session.active_replay is not None:
        raise InputError("A replay has its own targets; leave out the script or the replay.")
    replays = session.active_replay is not None
    set_targets = circle_targets(session) if script is None else _script_targets(session, script)
    session.handle_message(
        {"type": "record", "on": True}
        if session.active_replay is None
        else {"type": "pause", "on": False}
    )
    try:
        took, errors = _run_steps(session, steps, set_targets)
        stopped = (
            f"After {counted(len(took), 'control step')}: {session.warning}"
            if session.command.paused
            else ""
        )
    finally:
        session.close()
    _raise_failures(session, stopped)
    metrics = _metrics(session, np.array(took), np.array(errors))
    return metrics | ({"final state": _replay_final_state(session)} if replays else {})


def _run_steps(
    session: Session, steps: int, set_targets: Callable[[Session, float], None]
) -> tuple[list[float], list[float]]:
    """Run control steps until the robot pauses or its replay ends. Return the computing time [s]
    and the error [m] of each step."""
    took, errors, replays = [], [], session.active_replay is not None
    for k in range(steps):
        set_targets(session, k / CONTROL_RATE)
        start = time.perf_counter()
        session.step(1.0 / CONTROL_RATE)
        if session.command.paused:
            break
        took.append(time.perf_counter() - start)
        errors.append(session.error)
        if replays and session.active_replay is None:
            break
    return took, errors


def _metrics(session: Session, took: Array, errors: Array) -> dict[str, float | str]:
    """Return the rate, the errors and the final state of a run."""
    steady = took[min(len(took) // 10, 60) :]
    warning = {"warning": session.current_warning} if session.current_warning else {}
    return {
        "control steps": len(took),
        "mean rate [Hz]": float(1.0 / steady.mean()),
        "p50 [ms]": 1e3 * float(np.percentile(steady, 50)),
        "p99 [ms]": 1e3 * float(np.percentile(steady, 99)),
        "final error [mm]": 1e3 * float(errors[-1]),
        "largest error [mm]": 1e3 * float(errors.max()),
        "final state": _final_state(session),
        **warning,
    }


def _final_state(session: Session) -> str:
    """Return the final state as text, with the error if the robot was still moving."""
    if session.state.outcome != MOVING:
        return session.text
    still = f"still moving at the end, {1e3 * session.error:.3g} mm from the target"
    return with_note(still, session.overlap)


def _replay_final_state(session: Session) -> str:
    """Return the final state of a replay as text."""
    ended = "replayed" if session.active_replay is None else "the duration ended before the replay"
    return f"{ended}; {session.overlap}" if session.overlap else ended


def circle_targets(
    session: Session, radius: float | None = None
) -> Callable[[Session, float], None]:
    """Return a function (session, t) that moves the target of each active effector on a circle
    through its initial position. The circle has a radius [m] and is normal to the last axis."""
    r = CIRCLE_RADIUS * session.picture.size if radius is None else radius
    initial = {name: session.effector_positions[name] for name in session.active}

    def set_targets(session: Session, t: float) -> None:
        angle = 2.0 * np.pi * t / CIRCLE_PERIOD
        move = np.zeros_like(next(iter(initial.values())))
        move[0], move[1] = r * np.sin(angle), r * (1.0 - np.cos(angle))
        _set_targets(session, {name: at + move for name, at in initial.items()})

    return set_targets


def _script_targets(session: Session, script: Keyframes) -> Callable[[Session, float], None]:
    dim, names = len(next(iter(session.effector_positions.values()))), session.active
    if script.values.shape[1] != len(names) * dim:
        raise InputError(
            f"The script has {counted(script.values.shape[1], 'column')} after the time, but needs "
            f"{dim} for each of {', '.join(names)}; add or remove columns."
        )
    distance = float(np.abs(script.values.reshape(-1, dim) - session.command_ranges.centre).max())
    if distance > MAX_TARGET_DISTANCE * session.command_ranges.size:
        raise InputError(
            f"A target of the script is {distance:.3g} m away from a robot of "
            f"{session.command_ranges.size:.3g} m; give positions in metres."
        )
    return lambda session, t: _set_targets(
        session, dict(zip(names, script(t).reshape(-1, dim), strict=True))
    )


def _set_targets(session: Session, targets: dict[str, Array]) -> None:
    if session.command.mode != REPLAY:
        session.command = replace(session.command, targets={**session.command.targets, **targets})


def load_script(path: Path) -> Keyframes:
    """Read targets over time from CSV. Each row has the time [s] and the target [m] of each active
    effector; a header row is optional. Raises `InputError` if the file is invalid."""
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
            raise ValueError("every row needs a time and the same number of coordinates")
        return Keyframes(
            times=np.array([row[0] for row in numbers]),
            values=np.array([row[1:] for row in numbers]),
        )
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its path.") from None
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
