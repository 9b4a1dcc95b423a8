"""Arm files: a serial arm as TOML in SI units, with its joints in order and one or more sides. A
side is a mounting pose of the arm."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from pliant.actuators.arm import Arm, Joint
from pliant.core import InputError, nearest, require_kind
from pliant.store import check_path

MAX_BYTES = 1_000_000  # far above any arm; a larger file was given by mistake
JOINT_KEYS = [part.name for part in fields(Joint)]
SIDE_KEYS = ("xyz", "rpy", "start")


def load_arm(path: str | Path, *, side: str | None = None, start: ArrayLike | None = None) -> Arm:
    """Return the arm of a TOML file.

    `side` names one of its sides; None: the only one. `start` (n_joints,) [rad] replaces the
    initial angles of the file. Raises `InputError` that names the file, the key and the remedy.
    """
    path = check_path("The path of the arm file", path)
    try:
        table = _checked_table("the file", _read_toml(path), ("name", "grip", "joints", "sides"))
        name, sides = str(table["name"]), table["sides"]
        require_kind("sides", sides, Mapping, "write a table [sides.NAME] for each")
        require_kind("joints", table["joints"], list, "write a table [[joints]] for each")
        placed = _checked_table(
            f"sides.{(side := _choose_side(side, sides))}", sides[side], SIDE_KEYS
        )
        joints = tuple(_joint(k, joint) for k, joint in enumerate(table["joints"]))
        placed["start"] = placed["start"] if start is None else start
        return Arm(name=f"{name} {side}", joints=joints, grip=table["grip"], **placed)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _choose_side(side: str | None, sides: Iterable[str]) -> str:
    """Return the name of the side. Raises `InputError` that lists the sides."""
    names = list(sides)
    if side is None and len(names) == 1:
        return names[0]
    if side is None:
        raise InputError(
            f"The arm has the sides {', '.join(names) or 'none'}; name one with side=... ."
        )
    if side not in names:
        raise InputError(f"The arm has no side '{side}'; {nearest(side, names)}")
    return side


def _joint(k: int, table: Any) -> Joint:
    row = _checked_table(f"joints[{k}]", table, JOINT_KEYS)
    require_kind(f"joints[{k}].name", row["name"], str, "write text in quotes")
    return Joint(**row)


def _checked_table(place: str, table: Any, keys: Iterable[str]) -> dict[str, Any]:
    """Return a copy of a table. Raises `InputError` unless it has exactly these keys."""
    require_kind(place, table, Mapping, "write a table of keys")
    for key in table:
        if key not in keys:
            raise InputError(f"There is no key '{str(key)[:60]}' in {place}; {nearest(key, keys)}")
    for key in keys:
        if key not in table:
            raise InputError(f"The key '{key}' is missing in {place}; add it.")
    return dict(table)


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises `InputError` if it is unreadable or too large."""
    try:
        if os.path.exists(path) and not path.is_file():
            raise InputError(
                "The path is a folder, a pipe or a device; give the path of an arm file."
            )
        if not path.is_file():
            raise InputError(
                f"There is no such arm file; check the path, which is relative to {Path.cwd()}."
            )
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(
                f"The file has more than {MAX_BYTES} bytes; an arm needs a few hundred."
            )
        return tomllib.loads(data.decode("utf-8-sig"))
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            f"The file cannot be read ({error.strerror}); check its permissions."
        ) from None
    except (ValueError, RecursionError) as error:  # also for integers of more than 4300 digits
        raise InputError(f"The file is not TOML: {error}; correct that line.") from None
