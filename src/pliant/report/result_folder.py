"""The folder of a result: an old result stays whole until the new one is complete."""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pliant.core import InputError, quoted
from pliant.store import check_path, lock_folder, read_json, translate_write_errors
from pliant.store.file_list import FILES, read_file_list, write_file_list

RESULT, UNFINISHED, ORIGIN = "result.json", "unfinished", "run.json"


def checked_folder(out: str | Path | None, default: str) -> Path:
    """Return the folder `out`, or results/`default`. Raises `InputError` if it is not usable."""
    folder = Path("results") / default if out is None else check_path("The result folder", out)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise InputError(f"{folder} is a file, and results need a folder. Choose another path.")
    if os.path.isdir(folder / RESULT):
        raise InputError(f"{folder / RESULT} is a folder. Rename it, or choose another folder.")
    return folder


@contextmanager
def lock_result_folder(folder: Path) -> Iterator[None]:
    """Lock a result folder for this process. The result of a run that was killed before it was
    published is published first."""
    with lock_folder(folder):
        publish(folder)
        if (
            (folder / RESULT).is_file()
            and (folder / FILES).is_file()
            and not read_file_list(folder)
        ):
            write_file_list(folder, _entries(folder))  # killed before the list was written
        yield


@contextmanager
def replace_result(folder: Path, *, resume: bool = False) -> Iterator[Path]:
    """Yield the folder that a run writes into. When the block ends, its files replace those of the
    old result. The caller has locked the folder.

    A run into an empty folder writes there, any other one into `folder`/unfinished. A run that was
    interrupted there stays for `resume`.
    """
    work = folder / UNFINISHED
    if not resume:
        _remove_run(work)
    if not work.is_dir() and not (folder / RESULT).exists() and _may_write_directly(folder):
        yield from _write_directly(folder)
        return
    if (folder / RESULT).exists() and not (folder / FILES).is_file():
        raise InputError(
            f"{folder} has a {RESULT} without {FILES}, the list of the files that belong to it. "
            "Rename the folder, or choose another folder."
        )
    if not work.is_dir():
        write_file_list(work, [])
    yield work
    publish(folder)


def _may_write_directly(folder: Path) -> bool:
    return (folder / FILES).is_file() or not _entries(folder)


def _write_directly(folder: Path) -> Iterator[Path]:
    written = read_file_list(folder)
    others = set(_entries(folder)) - set(written) if written else set()
    write_file_list(folder, written)
    try:
        yield folder
    finally:
        write_file_list(folder, sorted(set(_entries(folder)) - others))


def publish(folder: Path) -> None:
    """Move a complete result from `folder`/unfinished to `folder`, its result.json last, and remove
    what only the old result had. The next call completes a call that was killed.

    Raises `InputError` if a file that no run has written is in the way.
    """
    work = folder / UNFINISHED
    _check_run(work)
    if not (work / RESULT).is_file():
        return
    old, new = read_file_list(folder), read_file_list(work) or _entries(work)
    _check_names(folder, set(_entries(work)) - set(old))
    write_file_list(work, new)
    write_file_list(folder, sorted({*old, *new}))
    with translate_write_errors(folder, 0):
        for name in sorted(set(old) - set(new)):
            _delete(folder / name)
        for name in sorted(_entries(work), key=lambda name: (name == RESULT, name)):
            if (work / name).is_dir() or not (folder / name).is_file():
                _delete(folder / name)
            os.replace(work / name, folder / name)
    write_file_list(folder, new)
    _remove_run(work)


def _check_names(folder: Path, names: Collection[str]) -> None:
    for name in sorted(names):
        if os.path.lexists(folder / name):
            raise InputError(
                f"{folder / name} was not written by a run, and the new result needs its name. "
                "Rename it. Then resume the run, or write the report again."
            )


def _check_run(work: Path) -> None:
    """Raise `InputError` if `work` exists and no run has made it."""
    if os.path.lexists(work) and not (work / FILES).is_file():
        if work.is_dir() and not work.is_symlink() and not any(work.iterdir()):
            return
        raise InputError(f"{work} is not an unfinished run. Rename it, or choose another folder.")


def _remove_run(work: Path) -> None:
    _check_run(work)
    with translate_write_errors(work, 0):
        for path in sorted(work.glob("*"), key=lambda path: path.name == FILES):
            _delete(path)  # the list last: it shows that a run has made the folder
        if work.is_dir():
            work.rmdir()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _entries(folder: Path) -> list[str]:
    with translate_write_errors(folder, 0):
        return sorted(path.name for path in folder.iterdir() if path.name not in (FILES, ".lock"))


def read_result(path: Path) -> dict[str, Any]:
    """Return the content of a result.json. Raises `InputError` if a field is missing or damaged."""
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
        f"{path} is damaged: '{field}' is {quoted(value)}. Run again without resuming."
    )


def check_origin(folder: Path, now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raise `InputError` that names the differences, unless the run in `folder` was started as it
    is now: with the same experiment, settings, seed, version and solvers."""
    if before.get("key") == now["key"]:
        return
    old, new = _comparable_fields(before), _comparable_fields(now)
    differences = [
        f"{name} was {quoted(old[name])} and is now {quoted(new[name])}"
        for name in new
        if name in old and old[name] != new[name]
    ] + [f"{name} is set in one of the runs only" for name in sorted(set(old) ^ set(new))]
    raise InputError(
        f"{folder} holds a run with other settings, seed or version "
        f"({', '.join(differences[:4]) or 'the robot differs'}). Give another folder (--out), or "
        "replace it by a run without resuming (--resume)."
    )


def _comparable_fields(origin: Mapping[str, Any]) -> dict[str, Any]:
    settings = origin.get("settings")
    versions = origin.get("versions")
    return {
        "the seed": origin.get("seed"),
        "the list of solvers": origin.get("solvers"),
        **(settings if isinstance(settings, Mapping) else {}),
        "pliant": versions.get("pliant") if isinstance(versions, Mapping) else None,
    }
