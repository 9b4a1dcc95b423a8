"""Crash-safe files: atomic writes, JSON with clear errors, and locked folders."""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pliant.core import InputError, PliantError, quoted, require_kind

_REMEDIES = {
    errno.ENOSPC: "the disk is full. Free some space",
    errno.EACCES: "you have no permission to write there. Change the permissions",
    errno.EISDIR: "it is a folder. Give the name of a file",
    errno.ENOTDIR: "a part of this path is a file, not a folder. Move that file",
    errno.EEXIST: "a part of this path is a file, not a folder. Move that file",
}

_TEMPORARY_NAME = ".pliant-{}.tmp"  # name of a file that is being written


def check_path(what: str, path: object, remedy: str = "give text or a pathlib.Path") -> Path:
    """Return the path of a file or folder that a user gave. Raises `InputError` that begins with
    `what`, such as "The result folder", unless it is a non-empty string or a path."""
    require_kind(what, path, (str, os.PathLike), remedy)
    name = os.fspath(path)  # type: ignore[call-overload]  # checked above
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"{what} is {quoted(name)}. Give the path of a file or folder.")
    return Path(name)


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Replace the content of `path` by `data`. After a crash at any time, the file has either the
    old or the new content. Raises `PliantError` if it cannot be written."""
    blob = data.encode() if isinstance(data, str) else data
    with atomic_file(path, len(blob)) as file:
        file.write(blob)


@contextmanager
def atomic_file(path: str | Path, size: int) -> Iterator[BinaryIO]:
    """Yield a file of `size` bytes to write. It replaces `path` when the block ends. After a crash
    at any time, `path` has either the old or the new content."""
    path = Path(os.path.realpath(path))  # a symbolic link stays a link: its target is replaced
    # Not tempfile.mkstemp: its files are private (0600), and os.replace would make the result
    # private too.
    temp = path.parent / _TEMPORARY_NAME.format(secrets.token_hex(8))
    with translate_write_errors(path, size):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temp, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temp, path)
        finally:
            temp.unlink(missing_ok=True)
        _sync_folder(path.parent)


def remove_files(folder: str | Path, *patterns: str) -> None:
    """Remove the files that match the patterns from a folder, in the order of the patterns, and
    then temporary files of interrupted writes."""
    with translate_write_errors(Path(folder), 0):
        for pattern in (*patterns, _TEMPORARY_NAME.format("*")):
            for path in Path(folder).glob(pattern):
                path.unlink(missing_ok=True)


def write_json(path: str | Path, obj: Mapping[str, Any]) -> None:
    """Write an object as indented JSON, atomically. NumPy numbers and arrays become numbers and
    lists. Raises `InputError` for NaN and other values that JSON cannot contain."""
    write_atomic(path, json.dumps(_to_json_types(obj, ""), indent=2, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises `InputError` if the file is missing or damaged."""
    blob = read_bytes(Path(path))
    if not blob.strip():
        raise InputError(f"{path} is empty. Delete it and run again, or restore it from a copy.")
    try:
        obj = json.loads(blob, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid JSON ({error}). Delete it and run again, or choose another "
            "folder."
        ) from error
    if not isinstance(obj, dict):
        raise InputError(
            f"{path} contains a JSON {type(obj).__name__}, but an object is needed. Write "
            "{...} with names."
        )
    return obj


@contextmanager
def lock_folder(folder: str | Path) -> Iterator[None]:
    """Lock a folder for this process. The folder is created if needed, and unlocked when the block
    or the process ends. Raises `InputError` if another process has locked it."""
    path = Path(folder) / ".lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder {folder} cannot be created ({error.strerror}). Choose another one."
        ) from None
    with translate_write_errors(path, 0):
        file = path.open("w")
    with file:
        try:
            if os.name != "nt":  # Windows has no flock
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{folder} is being written by another run. Wait for it, or choose another folder."
            ) from None
        yield


def content_key(settings: Mapping[str, Any]) -> str:
    """Return 64 hexadecimal digits that are equal for equal settings in any order."""
    text = json.dumps(_to_json_types(settings, ""), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _to_json_types(obj: Any, where: str) -> Any:
    """Return `obj` as JSON types. Raises `InputError` that names the place `where`."""
    if isinstance(obj, np.ndarray | np.generic):
        obj = obj.tolist()
    if isinstance(obj, Mapping):
        for name in obj:
            if not isinstance(name, str):
                raise InputError(
                    f"{where or 'The object'} has the name {name!r}, but JSON names are strings. "
                    "Use str()."
                )
        return {
            name: _to_json_types(value, f"{where}.{name}".lstrip("."))
            for name, value in obj.items()
        }
    if isinstance(obj, list | tuple):
        return [_to_json_types(value, f"{where}[{i}]") for i, value in enumerate(obj)]
    if isinstance(obj, float) and not np.isfinite(obj):
        raise InputError(
            f"{where} is {obj}, which JSON cannot contain. Store a finite number or None."
        )
    if obj is None or isinstance(obj, str | int | float):
        return obj
    raise InputError(
        f"{where} is a {type(obj).__name__}, which JSON cannot contain. Store numbers, text or "
        "lists."
    )


def _reject_constant(text: str) -> None:
    raise ValueError(f"it contains {text}, which is not a JSON number")


def read_bytes(path: Path) -> bytes:
    with translate_read_errors(path):
        return path.read_bytes()


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Raise `InputError` in place of an `OSError` from reading `path`."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist. Check the path.") from error
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}. Check the path and its permissions."
        ) from error


@contextmanager
def translate_write_errors(path: Path, size: int) -> Iterator[None]:
    """Raise `PliantError` in place of an `OSError` from writing `size` bytes to `path`."""
    try:
        yield
    except OSError as error:
        why = _REMEDIES.get(error.errno or 0, f"{error.strerror}. Check the path")
        raise PliantError(
            f"{path} could not be written ({size} bytes): {why}, or choose another path."
        ) from error


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder, and its rename is already in the journal
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
