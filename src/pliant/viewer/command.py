"""Commands from the page. Each message from the page gives a new command or raises
`InputError`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, InputError, finite_array, nearest, quoted

FOLLOW, MANUAL, REPLAY = "follow", "manual", "replay"
MODES = (FOLLOW, MANUAL)  # modes that the page may select; a replay has its own message
MAX_TARGET_DISTANCE = 20.0  # robot sizes; a target further away is a mistake


@dataclass(frozen=True, kw_only=True, eq=False)
class Command:
    """The request of the user from the next control step on."""

    active: tuple[str, ...]  # names of the effectors that follow their targets
    targets: Mapping[str, Array]  # effector -> (dim,) [m]
    controls: Array  # (n_controls,) in manual mode
    mode: str = FOLLOW
    paused: bool = False
    recording: bool = False
    colour: str = "strain"
    resets: int = 0  # number of resets requested so far
    replays: int = 0  # number of replays requested so far


@dataclass(frozen=True, kw_only=True, eq=False)
class CommandRanges:
    """The admissible ranges of a command."""

    centre: Array  # (dim,) [m] of the robot at rest
    size: float  # [m] of the robot at rest
    lower: Array  # (n_controls,) limits of the controls
    upper: Array  # (n_controls,)
    colours: tuple[str, ...]


def apply_message(command: Command, message: Mapping[str, Any], ranges: CommandRanges) -> Command:
    """Return the command after a message. Raises `InputError` if the message is invalid."""
    kind = message["type"]
    if kind not in MESSAGE_HANDLERS:
        raise InputError(
            f"The page sent an unknown message type '{str(kind)[:40]}'; "
            f"{nearest(kind, MESSAGE_HANDLERS)}"
        )
    return MESSAGE_HANDLERS[kind](command, message, ranges)


def _target(command: Command, message: Mapping[str, Any], ranges: CommandRanges) -> Command:
    name = _one_of("an effector", message.get("effector"), command.targets)
    at = finite_array(f"The target of '{name}'", message.get("at"), ranges.centre.shape, "m")
    distance = float(np.abs(at - ranges.centre).max())
    if distance > MAX_TARGET_DISTANCE * ranges.size:
        raise InputError(
            f"The target of '{name}' is {distance:.3g} m away from a robot of "
            f"{ranges.size:.3g} m; move it closer."
        )
    return replace(command, targets={**command.targets, name: at})


def _active(command: Command, message: Mapping[str, Any], ranges: CommandRanges) -> Command:
    names = message.get("effectors")
    if not isinstance(names, list) or not names:
        raise InputError(f"The active effectors are {quoted(names)}; name one or more.")
    if command.recording:
        raise InputError("The effectors cannot change during a recording; stop it first.")
    requested = {_one_of("an effector", name, command.targets) for name in names}
    return replace(command, active=tuple(name for name in command.targets if name in requested))


def _mode(command: Command, message: Mapping[str, Any], ranges: CommandRanges) -> Command:
    return replace(command, mode=_one_of("a mode", message.get("mode"), MODES))


def _controls(command: Command, message: Mapping[str, Any], ranges: CommandRanges) -> Command:
    u = finite_array("The array of controls", message.get("values"), ranges.lower.shape)
    return replace(command, controls=np.clip(u, ranges.lower, ranges.upper))


def _colour(command: Command, message: Mapping[str, Any], ranges: CommandRanges) -> Command:
    return replace(command, colour=_one_of("a colour", message.get("by"), ranges.colours))


def _switch(key: str) -> Callable[[Command, Mapping[str, Any], CommandRanges], Command]:
    def switch(command: Command, message: Mapping[str, Any], ranges: CommandRanges) -> Command:
        if not isinstance(message.get("on"), bool):
            raise InputError(
                f"The switch '{key}' is {str(message.get('on'))[:40]!r}; send true or false."
            )
        return replace(command, **{key: message["on"]})

    return switch


def _one_of(what: str, name: Any, known: Any) -> str:
    if not isinstance(name, str) or name not in known:
        raise InputError(f"'{str(name)[:40]}' is not {what}; {nearest(name, known)}")
    return name


MESSAGE_HANDLERS: dict[str, Callable[[Command, Mapping[str, Any], CommandRanges], Command]] = {
    "target": _target,
    "active": _active,
    "mode": _mode,
    "controls": _controls,
    "colour": _colour,
    "pause": _switch("paused"),
    "record": _switch("recording"),
    "reset": lambda command, message, ranges: replace(command, resets=command.resets + 1),
    "replay": lambda command, message, ranges: replace(command, replays=command.replays + 1),
}
