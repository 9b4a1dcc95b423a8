"""The list of the files that a run has written into a folder. A later run replaces or removes these
files, and no others."""

import os
from collections.abc import Collection
from pathlib import Path

from pliant.core import InputError
from pliant.store.files import read_json, write_json

FILES = ".pliant-files.json"


def write_file_list(folder: Path, names: Collection[str]) -> None:
    """Write the names of the files that a run has written into a folder."""
    write_json(folder / FILES, {"files": list(names)})


def read_file_list(folder: Path) -> list[str]:
    """Return the names of the files that a run has written into a folder. Raises `InputError` if
    the list is damaged."""
    if not os.path.isfile(folder / FILES):
        return []
    names = read_json(folder / FILES).get("files")
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name and name == Path(name).name != ".." for name in names
    ):
        raise InputError(f"{folder / FILES} is damaged. Rename {folder}, or choose another folder.")
    return names


def keep_files(folder: Path, names: Collection[str]) -> None:
    """Remove names from the list of a folder, so that later runs keep these files."""
    listed = read_file_list(folder)
    if not set(listed).isdisjoint(names):
        write_file_list(folder, [name for name in listed if name not in names])
