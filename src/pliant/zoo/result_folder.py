"""The folder of a result: an old result stays whole until the new one is complete."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pliant.core import InputError, quoted
from pliant.store import lock, os_errors_as_sentences, read_json

RESULT, UNFINISHED, ORIGIN = "result.json", "unfinished", "run.json"


def checked_folder(out: str | Path | None, default: str) -> Path:
    """The folder `out`, or results/`default`. Raises `InputError` if results cannot go there."""
    if out is not None and (not str(out) or "\0" in str(out)):
        raise InputError(f"The result folder is {quoted(out)}; give --out the path of a folder.")
    folder = Path(out) if out is not None else Path("results") / default
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise InputError(f"{folder} is a file, and results need a folder; give another --out.")
    if os.path.isdir(folder / RESULT):
        raise InputError(f"{folder / RESULT} is a folder; rename it, or give another --out.")
    return folder


@contextmanager
def replaced(folder: Path, *, resume: bool = False) -> Iterator[Path]:
    """Yield the folder that a run writes into. When the block ends, its files replace those of the
    old result.

    A run without an old result writes into `folder` itself, any other one into
    `folder`/unfinished. A run that was interrupted there stays for `resume`.
    """
    with lock(folder):
        publish(folder)  # a run that was killed after its last file was written
        work = folder / UNFINISHED
        if not resume:
            _remove(work)
        yield work if work.is_dir() or (folder / RESULT).is_file() else folder
        publish(folder)


def publish(folder: Path) -> None:
    """Move a complete result from `folder`/unfinished to `folder`, its result.json last, so that a
    crash on the way is made good by the next call."""
    work = folder / UNFINISHED
    if not (work / RESULT).is_file():
        return
    with os_errors_as_sentences(folder, 0):
        names = sorted(path.name for path in work.iterdir() if path.name != RESULT)
        for name in (*names, RESULT):
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                _remove(folder / name)
            os.replace(work / name, folder / name)
        _remove(work)


def _remove(folder: Path) -> None:
    with os_errors_as_sentences(folder, 0):
        if folder.is_dir():
            shutil.rmtree(folder)


def read_result(path: Path) -> dict[str, Any]:
    """The content of a result.json. Raises `InputError` for a field that is missing or damaged."""
    result = read_json(path)
    kinds: dict[str, Any] = {
        "name": str,
        "key": str,
        "status": str,
        "seed": int,
        "settings": dict,
        "seconds": int | float,
        "metrics": dict,
        "notes": list,
    }
    for field, kind in kinds.items():
        if not isinstance(result.get(field), kind):
            _damaged(path, field, result.get(field))
    for name, metric in result["metrics"].items():
        if not isinstance(metric, dict) or set(metric) != {"value", "unit", "paper"}:
            _damaged(path, f"metrics.{name}", metric)
    if not all(isinstance(note, str) for note in result["notes"]):
        _damaged(path, "notes", result["notes"])
    return result


def _damaged(path: Path, field: str, value: Any) -> NoReturn:
    raise InputError(
        f"{path} is damaged: '{field}' is {quoted(value)}; run again without --resume."
    )


def check_origin(folder: Path, now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raise `InputError` that names the differences, unless the run in `folder` was started as it
    is now: with the same experiment, settings, seed, version and solver."""
    if before.get("key") == now["key"]:
        return
    old, new = _flat(before), _flat(now)
    differences = [
        f"{name} was {quoted(old[name])} and is now {quoted(new[name])}"
        for name in new
        if name in old and old[name] != new[name]
    ] + [f"{name} is only in one of them" for name in sorted(set(old) ^ set(new))]
    raise InputError(
        f"{folder} holds a run with other settings, seed or version "
        f"({', '.join(differences[:4]) or 'the robot or the solver is another one'}); give another "
        "--out, or run without --resume to replace it."
    )


def _flat(origin: Mapping[str, Any]) -> dict[str, Any]:
    settings = origin.get("settings")
    versions = origin.get("versions")
    return {
        "the seed": origin.get("seed"),
        **(settings if isinstance(settings, Mapping) else {}),
        "pliant": versions.get("pliant") if isinstance(versions, Mapping) else None,
    }
