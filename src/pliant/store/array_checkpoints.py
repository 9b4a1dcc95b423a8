"""Checkpoints of trainings and optimisations: arrays as safetensors, the rest as JSON.

Nothing is pickled, so a file of somebody else cannot run code. The arrays are written first, into a
file whose name has their digest; then training.json, which names it, is replaced in one step. So a
folder holds either the old or the new checkpoint, whenever the process ends.
"""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.core import Array, InputError, is_integer, quoted
from pliant.store.files import (
    check_path,
    read_bytes,
    read_json,
    remove_files,
    translate_read_errors,
    write_atomic,
    write_json,
)
from pliant.store.safetensors import parse_safetensors, safetensors_bytes

VERSION = 1
MAX_CONTENT = 100_000_000  # [bytes] of the JSON file: about a million iterations
MAX_ARRAYS = 2**31  # [bytes] of the arrays: ten times those of Adam for the largest MLP


@dataclass(frozen=True, kw_only=True)
class CheckpointKind:
    """What a checkpoint is of, for the names of its files and for errors."""

    noun: str  # such as "training"
    writer: str  # the function that writes it, such as "train(...)"
    again: str  # what to do if it is lost, such as "train again"

    @property
    def file(self) -> str:
        return f"{self.noun}.json"

    def exists(self, folder: str | Path) -> bool:
        """Return whether a folder has such a checkpoint, whether or not it can be read."""
        return os.path.lexists(check_path("The folder", folder) / self.file)

    def check_folder(self, folder: str | Path | None, resume: bool) -> None:
        """Raise InputError if there is nothing to resume, if a checkpoint would be overwritten, or
        if a part of the path is a file."""
        noun = self.noun
        article = "An" if noun[0] in "aeiou" else "A"
        if folder is None:
            if resume:
                raise InputError(
                    f"{article} {noun} is resumed from a folder; give folder=... as well."
                )
        elif resume and not self.exists(folder):
            raise InputError(
                f"The folder {folder} has no {self.file}, so there is no {noun} to resume. Give "
                f"the folder of the {noun}, or start a new one without resume."
            )
        elif not resume and self.exists(folder):
            raise InputError(
                f"The folder {folder} already has {article.lower()} {noun}, which would be "
                "overwritten. Continue it with resume=True, or give another folder."
            )
        else:
            for part in (Path(folder), *Path(folder).parents):
                if part.exists() and not part.is_dir():
                    raise InputError(
                        f"The folder {folder} cannot be made, because {part} is a file. Give "
                        "another folder."
                    )

    def damaged(self, file: Path | str, why: str) -> InputError:
        """Return the error of a damaged file."""
        return InputError(f"{file} is damaged: {why}. Restore it from a copy, or {self.again}.")


def write_checkpoint(
    kind: CheckpointKind,
    folder: str | Path,
    content: Mapping[str, Any],
    arrays: Mapping[str, Array],
) -> None:
    """Replace the checkpoint in a folder. A checkpoint that was there stays readable until the new
    one is complete."""
    folder = check_path("The folder", folder)
    blob = safetensors_bytes(arrays)
    digest = hashlib.sha256(blob).hexdigest()
    write_atomic(folder / _array_file(kind, digest), blob)
    write_json(
        folder / kind.file,
        {"format": f"pliant {kind.noun}", "version": VERSION, **content, "arrays": digest},
    )
    old = [
        path.name
        for path in folder.glob(f"{kind.noun}-{8 * '[0-9a-f]'}.safetensors")
        if path.name != _array_file(kind, digest)
    ]
    remove_files(folder, *old)


def _array_file(kind: CheckpointKind, digest: str) -> str:
    return f"{kind.noun}-{digest[:8]}.safetensors"


def read_checkpoint(
    kind: CheckpointKind, path: str | Path
) -> tuple[Path, dict[str, Any], dict[str, Array]]:
    """Return the path, the JSON content and the arrays of a checkpoint in a folder.

    Raises InputError if a file is missing or damaged, or of a newer Pliant.
    """
    path = check_path("The folder", path)
    whole = Path(path).is_dir() or Path(path).suffix != ".json"
    file = Path(path) / kind.file if whole else Path(path)
    if not os.path.lexists(file):
        raise InputError(f"{file} does not exist. Give the folder that {kind.writer} wrote.")
    _check_file(kind, file, MAX_CONTENT)
    content = read_json(file)
    if content.get("format") != f"pliant {kind.noun}":
        raise InputError(f"{file} is no {kind.noun}. Give the folder that {kind.writer} wrote.")
    version = content.get("version")
    if not is_integer(version) or not 1 <= version <= VERSION:
        raise InputError(
            f"{file} has the version {str(version)[:40]!r}, but this Pliant reads version "
            f"{VERSION}. Install a newer Pliant, or restore the file from a copy."
        )
    digest = content.get("arrays")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise kind.damaged(file, f"the digest of its arrays is {quoted(digest)}")
    arrays = file.parent / _array_file(kind, digest)
    _check_file(kind, arrays, MAX_ARRAYS)
    blob = read_bytes(arrays)
    if hashlib.sha256(blob).hexdigest() != digest:
        raise InputError(
            f"{arrays} does not belong to {file}: one of them is damaged or of another "
            f"{kind.noun}. Restore both from a copy, or {kind.again}."
        )
    return file, content, parse_safetensors(blob, str(arrays))


def _check_file(kind: CheckpointKind, path: Path, largest: int) -> None:
    """Raise InputError unless a path is a regular file, which has an end, of at most `largest`
    bytes. A pipe or a device is not opened."""
    with translate_read_errors(path):
        found = path.stat()  # of the target of a link
    if not stat.S_ISREG(found.st_mode):
        raise InputError(
            f"{path} is a directory, a pipe or a device, not a regular file. Restore it from a "
            f"copy, or {kind.again} in another folder."
        )
    if found.st_size > largest:
        raise InputError(
            f"{path} has {found.st_size} bytes, but a checkpoint has at most {largest}. Restore it "
            f"from a copy, or {kind.again} in another folder."
        )
