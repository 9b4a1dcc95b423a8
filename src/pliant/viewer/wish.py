"""Wish: what the person at the page wants. Every message from the page makes a new one, or is
refused in a sentence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.core import Array, InputError, finite_array, nearest, quoted

FOLLOW, MANUAL, REPLAY = "follow", "manual", "replay"
MODES = (FOLLOW, MANUAL)  # which the page may ask for; a replay is asked for as such
FAR = 20.0  # sizes of the robot, beyond which a target makes no sense


@dataclass(frozen=True, kw_only=True, eq=False)
class Wish:
    """What is wanted of the robot from the next tick on."""

    active: tuple[str, ...]  # the effectors that follow their targets
    targets: Mapping[str, Array]  # effector -> (dim,) [m]
    controls: Array  # (n_controls,) by hand
    mode: str = FOLLOW
    paused: bool = False
    recording: bool = False
    colour: str = "strain"
    resets: int = 0  # how often it was asked to begin anew
    replays: int = 0  # how often it was asked to play the last recording


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """What a wish is measured by."""

    middle: Array  # (dim,) [m] of the robot at rest
    size: float  # [m]
    lower: Array  # (n_controls,) limits of the controls
    upper: Array  # (n_controls,)
    colours: tuple[str, ...]


def heard(wish: Wish, message: Mapping[str, Any], frame: Frame) -> Wish:
    """The wish after a message."""
    say = message["say"]
    if say not in SAYINGS:
        raise InputError(
            f"The page said '{str(say)[:40]}', which nobody understands; {nearest(say, SAYINGS)}"
        )
    return SAYINGS[say](wish, message, frame)


def _target(wish: Wish, message: Mapping[str, Any], frame: Frame) -> Wish:
    name = _one_of("an effector", message.get("effector"), wish.targets)
    at = finite_array(f"The target of '{name}'", message.get("at"), frame.middle.shape, "m")
    away = float(np.abs(at - frame.middle).max())
    if away > FAR * frame.size:
        raise InputError(
            f"The target of '{name}' is {away:.3g} m away from a robot of {frame.size:.3g} m; "
            "bring it nearer."
        )
    return replace(wish, targets={**wish.targets, name: at})


def _active(wish: Wish, message: Mapping[str, Any], frame: Frame) -> Wish:
    names = message.get("effectors")
    if not isinstance(names, list) or not names:
        raise InputError(f"The effectors that follow are {quoted(names)}; name one or more.")
    if wish.recording:
        raise InputError("A recording is of the same effectors throughout; stop it first.")
    asked = {_one_of("an effector", name, wish.targets) for name in names}
    return replace(wish, active=tuple(name for name in wish.targets if name in asked))


def _mode(wish: Wish, message: Mapping[str, Any], frame: Frame) -> Wish:
    return replace(wish, mode=_one_of("a mode", message.get("mode"), MODES))


def _controls(wish: Wish, message: Mapping[str, Any], frame: Frame) -> Wish:
    u = finite_array("The array of controls", message.get("values"), frame.lower.shape)
    return replace(wish, controls=np.clip(u, frame.lower, frame.upper))


def _colour(wish: Wish, message: Mapping[str, Any], frame: Frame) -> Wish:
    return replace(wish, colour=_one_of("a colour", message.get("by"), frame.colours))


def _switch(key: str) -> Callable[[Wish, Mapping[str, Any], Frame], Wish]:
    def turned(wish: Wish, message: Mapping[str, Any], frame: Frame) -> Wish:
        if not isinstance(message.get("on"), bool):
            raise InputError(
                f"Whether it is {key} is {str(message.get('on'))[:40]!r}; say true or false."
            )
        return replace(wish, **{key: message["on"]})

    return turned


def _one_of(what: str, name: Any, known: Any) -> str:
    if not isinstance(name, str) or name not in known:
        raise InputError(f"'{str(name)[:40]}' is not {what}; {nearest(name, known)}")
    return name


SAYINGS: dict[str, Callable[[Wish, Mapping[str, Any], Frame], Wish]] = {
    "target": _target,
    "active": _active,
    "mode": _mode,
    "controls": _controls,
    "colour": _colour,
    "pause": _switch("paused"),
    "record": _switch("recording"),
    "reset": lambda wish, message, frame: replace(wish, resets=wish.resets + 1),
    "replay": lambda wish, message, frame: replace(wish, replays=wish.replays + 1),
}
