"""The cache of compiled code: one folder for each version of the compiled sources.

Numba compiles a cached function again when the function's own file changes, but not when a function
that it calls in another file changes. So the folder is named after all sources.

Numba unpickles the files of its cache and gives them to LLVM, which aborts on a damaged one. So
every file begins with a checksum, and only its owner can write the folder.
"""

import pickle
import re
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core import dispatcher as _dispatcher

from pliant.kernels.cache_folder import cache_folder

dispatcher: Any = _dispatcher
COMPILED_FUNCTION = re.compile(rb"^\s*@(njit|intrinsic)\b", re.MULTILINE)
FILE_FORMAT = b"sha256, then a pickle"
DIGEST_SIZE = sha256().digest_size


def digest(root: Path) -> str:
    """Return 12 hex digits that change with any file below `root` that contains compiled
    functions."""
    texts = (
        (path.relative_to(root).as_posix().encode(), path.read_bytes())
        for path in sorted(root.rglob("*.py"))
    )
    compiled = [name + text for name, text in texts if COMPILED_FUNCTION.search(text)]
    return sha256(b"".join([FILE_FORMAT, *compiled])).hexdigest()[:12]


def use_kernel_cache(root: Path) -> None:
    """Cache the compiled functions of the package at `root` in the user's cache folder.

    If there is no usable folder, nothing is cached and a warning says why.
    """
    folder, reason = cache_folder(digest(root))
    if folder is None:
        create: Callable[[Any], Any] = lambda _: _Uncached(str(reason))
    else:
        note = reason and f"Compiled code is kept in {folder}, because {reason}."
        create = _cache_factory(folder, note)
    dispatcher.FunctionCache = lambda function: (
        create(function)
        if function.__module__.startswith("pliant.")
        else caching.FunctionCache(function)
    )


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)


class _Uncached(caching.NullCache):
    """No cache; says so when something is compiled."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def save_overload(self, sig: Any, data: Any) -> None:
        _warn_once(
            f"Compiled code is not kept, because {self.reason}. Every run compiles it again; set "
            "NUMBA_CACHE_DIR to a folder that only you can write."
        )


def _cache_factory(folder: Path, note: str | None) -> Callable[[Any], Any]:
    """Return a function that creates the cache of one compiled function, below `folder`."""

    class Locator(caching.InTreeCacheLocator):
        def get_cache_path(self) -> str:
            return str(folder / self.get_suitable_cache_subpath(self._py_file))

    class CacheFormat(caching.CompileResultCacheImpl):
        _locator_classes = [Locator]  # noqa: RUF012  (the name and type are Numba's)

    class KernelCache(caching.FunctionCache):
        _impl_class = CacheFormat

        def __init__(self, function: Any) -> None:
            super().__init__(function)
            stamp = self._impl.locator.get_source_stamp()
            self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

        def save_overload(self, sig: Any, data: Any) -> None:
            if note is not None:
                _warn_once(note)
            try:
                super().save_overload(sig, data)
            except OSError as error:
                _warn_once(
                    f"Compiled code cannot be saved in {folder} ({error.strerror}); the next run "
                    "compiles it again."
                )

    def create(function: Any) -> Any:
        try:
            return KernelCache(function)
        except (OSError, RuntimeError) as error:  # RuntimeError: Numba found no place for it
            return _Uncached(f"{folder} cannot be used ({error})")

    return create


class _CheckedFiles(caching.IndexDataCacheFile):
    """The files of one function. A damaged file counts as missing, and is replaced."""

    def load(self, key: Any) -> Any:
        name = self._load_index().get(key)
        stored_key, data = (name and self._read(self._data_path(name))) or (None, None)
        # Two processes that save at the same time may have chosen the same name.
        return data if stored_key == key else None

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def _load_index(self) -> dict[Any, str]:
        version, stamp, names = self._read(self._index_path) or (None, None, {})
        return names if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, names: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, names))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _read(self, path: str) -> Any:
        try:
            content = Path(path).read_bytes()
        except OSError:
            return None
        if sha256(content[DIGEST_SIZE:]).digest() != content[:DIGEST_SIZE]:
            _warn_once(
                f"Compiled code in {Path(path).parent.parent} was damaged and is compiled again."
            )
            return None
        try:
            return pickle.loads(content[DIGEST_SIZE:])
        except Exception:  # written by another version of Numba or Python
            return None

    def _write(self, path: str, content: Any) -> None:
        payload = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(sha256(payload).digest() + payload)
