"""Files of a training: weights and the state of the optimiser as safetensors, the rest as JSON.

Nothing is pickled, so a file of somebody else cannot run code. The arrays are written first, into a
file whose name has their digest; then training.json, which names it, is replaced in one step. So a
folder holds either the old or the new checkpoint, whenever the process ends.
"""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.core import Array, InputError, is_integer, quoted
from pliant.store import read_json, remove_files, write_atomic, write_json
from pliant.store.files import read_bytes, translate_read_errors
from pliant.store.safetensors import parse_safetensors, safetensors_bytes

FILE = "training.json"
FORMAT = "pliant training"
VERSION = 1
MAX_CONTENT = 100_000_000  # [bytes] of training.json: about a million iterations
MAX_ARRAYS = 2**31  # [bytes] of the arrays: ten times those of Adam for the largest MLP


def write_checkpoint(
    folder: str | Path, content: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Replace the checkpoint in a folder. A checkpoint that was there stays readable until the new
    one is complete."""
    blob = safetensors_bytes(arrays)
    digest = hashlib.sha256(blob).hexdigest()
    write_atomic(Path(folder) / _array_file(digest), blob)
    write_json(
        Path(folder) / FILE,
        {"format": FORMAT, "version": VERSION, **content, "arrays": digest},
    )
    old = [
        path.name
        for path in Path(folder).glob(f"training-{8 * '[0-9a-f]'}.safetensors")
        if path.name != _array_file(digest)
    ]
    remove_files(folder, *old)


def _array_file(digest: str) -> str:
    return f"training-{digest[:8]}.safetensors"


def read_checkpoint(path: str | Path) -> tuple[Path, dict[str, Any], dict[str, Array]]:
    """Return the path, the JSON content and the arrays of a checkpoint in a folder.

    Raises InputError if a file is missing or damaged, or of a newer Pliant.
    """
    file = Path(path) / FILE if Path(path).is_dir() or Path(path).suffix != ".json" else Path(path)
    if not os.path.lexists(file):
        raise InputError(f"{file} does not exist. Give the folder that train(...) wrote.")
    _check_file(file, MAX_CONTENT)
    content = read_json(file)
    if content.get("format") != FORMAT:
        raise InputError(f"{file} is no training. Give the folder that train(...) wrote.")
    version = content.get("version")
    if not is_integer(version) or not 1 <= version <= VERSION:
        raise InputError(
            f"{file} has the version {str(version)[:40]!r}, but this Pliant reads version "
            f"{VERSION}. Install a newer Pliant, or restore the file from a copy."
        )
    digest = content.get("arrays")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise InputError(
            f"{file} is damaged: the digest of its arrays is {quoted(digest)}. Restore it from a "
            "copy, or train again."
        )
    arrays = file.parent / _array_file(digest)
    _check_file(arrays, MAX_ARRAYS)
    blob = read_bytes(arrays)
    if hashlib.sha256(blob).hexdigest() != digest:
        raise InputError(
            f"{arrays} does not belong to {file}: one of them is damaged or of another training. "
            "Restore both from a copy, or train again."
        )
    return file, content, parse_safetensors(blob, str(arrays))


def _check_file(path: Path, largest: int) -> None:
    """Raise InputError unless a path is a regular file, which has an end, of at most `largest`
    bytes. A pipe or a device is not opened."""
    with translate_read_errors(path):
        found = path.stat()  # of the target of a link
    if not stat.S_ISREG(found.st_mode):
        raise InputError(
            f"{path} is a directory, a pipe or a device, not a regular file. Restore it from a "
            "copy, or train again in another folder."
        )
    if found.st_size > largest:
        raise InputError(
            f"{path} has {found.st_size} bytes, but a training has at most {largest}. Restore it "
            "from a copy, or train again in another folder."
        )
