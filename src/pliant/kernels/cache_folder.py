"""The folder of the compiled code, whose files only its owner can write or replace.

Whoever can write these files can run code as the user who loads them.
"""

import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import config as _config

settings: Any = _config  # Numba creates its options at run time
CACHE_FOLDER_NAME = re.compile(r"kernels-[0-9a-f]{12}(\.\d+)?")
# A version that was not used for 60 days is rarely used again, and then only compiled again.
UNUSED_SECONDS = 60 * 24 * 3600


class UnusableFolder(Exception):
    """A folder that cannot be used as cache. The message is a clause that states why."""


def cache_folder(version: str) -> tuple[Path | None, str | None]:
    """Return the cache folder for a version of the sources, and why the user's folder is not used.

    The folder is below NUMBA_CACHE_DIR if that is set. If it is not usable, a private folder in the
    system's temporary folder replaces it. The folder is None if that is not usable either.
    """
    reason = None
    for create in (_user_folder, _temporary_folder):
        try:
            return create(f"kernels-{version}"), reason
        except UnusableFolder as error:
            reason = reason or str(error)
        except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
            reason = reason or f"the cache folder cannot be written ({error})"
    return None, reason


def _user_folder(name: str) -> Path:
    if settings.CACHE_DIR:
        return usable_folder(Path(settings.CACHE_DIR), name)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return usable_folder(Path(home) / "pliant", name)


def _temporary_folder(name: str) -> Path:
    user = os.geteuid() if os.name == "posix" else "cache"
    base = Path(tempfile.gettempdir()) / f"pliant-{user}"
    return usable_folder(base, name, private=True)


def usable_folder(base: Path, name: str, *, private: bool = False) -> Path:
    """Create the folder `name` in `base` and return its path without symbolic links.

    Delete the folders of versions that were not used for 60 days. With `private`, `base` must be a
    folder of mode 0700 that this user owns: its name is predictable, so another user may have
    created it in a shared folder. Raises `UnusableFolder` or `OSError`.
    """
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    if private:
        _require_private(base)
    (base / name).mkdir(mode=0o700, exist_ok=True)
    folder = (base / name).resolve()
    _require_safe(folder)
    os.utime(folder)  # the time of its last use
    tempfile.TemporaryFile(dir=folder).close()
    _delete_unused(folder.parent)
    return folder


def _require_private(base: Path) -> None:
    if os.name != "posix":
        return
    status = base.stat(follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise UnusableFolder(f"{base} belongs to another user or is a symbolic link")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UnusableFolder(f"other users have access to {base} (its mode must be 0700)")


def _require_safe(folder: Path) -> None:
    """Raise `UnusableFolder` if another user (except root) can write or replace a folder.

    The path must not contain symbolic links.
    """
    if os.name != "posix":
        return
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise UnusableFolder(f"{folder} belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnusableFolder(
            f"other users can write {folder} (delete it; Pliant creates it again with mode 0700)"
        )
    for parent in folder.parents:
        _require_safe_parent(parent)


def _require_safe_parent(parent: Path) -> None:
    status = parent.stat()
    if status.st_uid not in (0, os.geteuid()):
        raise UnusableFolder(f"{parent} belongs to another user, who can replace its folders")
    # In a sticky folder, such as /tmp, users can rename only files of their own.
    sticky = status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        raise UnusableFolder(f"other users can replace the folders in {parent}")


def _delete_unused(base: Path) -> None:
    """Delete the folders of old versions. Never fails.

    A folder is renamed first, so that a process that needs it now creates a new, complete one. A
    process that already uses it finds no files and compiles again.
    """
    with suppress(OSError):
        for folder in base.iterdir():
            with suppress(OSError):
                if CACHE_FOLDER_NAME.fullmatch(folder.name) and _is_unused(
                    folder.stat(follow_symlinks=False)
                ):
                    deleted = folder.rename(folder.with_suffix(f".{os.getpid()}"))
                    shutil.rmtree(deleted, ignore_errors=True)


def _is_unused(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and time.time() - status.st_mtime > UNUSED_SECONDS
