"""Exact evaluations in one SQLite file, shared by the processes of a machine. A killed process does
not damage it."""

import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from pliant.core import Array, InputError, PliantError, counted, finite_array, require_kind
from pliant.store.files import check_path, translate_write_errors
from pliant.surrogate.sample import Sample

APPLICATION_ID = int.from_bytes(b"Plnt", "big")  # identifies our files in the SQLite header
FORMAT_VERSION = 1
LOCK_TIMEOUT = 60.0  # [s] to wait for another process that writes
POLL_INTERVAL = 0.05  # [s] between two checks of what others compute

# A corner is unfinished while its value is NULL. `number` is the order of the requests, `asker` the
# token of the process that claimed the corner.
_TABLES = (
    "CREATE TABLE corners (number INTEGER PRIMARY KEY, model TEXT NOT NULL, point BLOB NOT NULL, "
    "asker TEXT NOT NULL, near BLOB, value BLOB, slope BLOB, note BLOB, failed BLOB, checksum "
    "INTEGER, UNIQUE (model, point))",
    "CREATE TABLE owners (model TEXT, level INTEGER, corner BLOB, cell BLOB, PRIMARY KEY (model, "
    "level, corner)) WITHOUT ROWID",
)
_SAMPLE = (
    "SELECT number, checksum, point, value, slope, note, failed FROM corners WHERE model = ? AND "
    "value NOT NULL"
)
_DAMAGED = (InputError, "it is damaged. Delete it and compute again, or restore it from a copy")
_NO_WRITING = (
    PliantError,
    "you may not write there. Change the permissions, or choose another location",
)
_REMEDY: dict[int, tuple[type[PliantError], str]] = {
    sqlite3.SQLITE_FULL: (
        PliantError,
        "the disk is full. Free some space, or choose another location",
    ),
    sqlite3.SQLITE_BUSY: (
        PliantError,
        "another program keeps it locked. End that program, or choose another file",
    ),
    sqlite3.SQLITE_IOERR: (
        PliantError,
        "the disk does not respond. Check its free space and health, or choose another location",
    ),
    sqlite3.SQLITE_READONLY: _NO_WRITING,
    sqlite3.SQLITE_CANTOPEN: _NO_WRITING,
    sqlite3.SQLITE_PERM: _NO_WRITING,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # a table or a column is missing
    sqlite3.SQLITE_NOTADB: (
        InputError,
        "it is not a file of corners. Delete it, or give another name",
    ),
}


class CornerStore:
    """The samples of one model, in a file that other processes and models may share, or in memory.
    It is a context manager. Raises InputError or PliantError if the file cannot be used."""

    def __init__(self, path: str | Path | None, *, key: str) -> None:
        """`key` is the content hash of the model. Without a path the samples are kept in memory."""
        require_kind(
            "The key of a store of corners", key, str, "give the content hash of the model as text"
        )
        self.path = None if path is None else Path(os.path.realpath(check_path("The store", path)))
        self.key = key
        self._token = secrets.token_hex(8)
        self._lock_folder = (
            None if self.path is None else self.path.with_name(self.path.name + ".alive")
        )
        with ExitStack() as stack, self._opening_lock():
            if self._lock_folder is not None:
                stack.enter_context(_process_lock(self._lock_folder, self._token))
            with self._sqlite_errors_as_pliant_errors():
                self._db = sqlite3.connect(
                    self.path or ":memory:", timeout=LOCK_TIMEOUT, isolation_level=None
                )
                stack.callback(self._db.close)
                self._prepare()
            self._resources = stack.pop_all()

    def samples(self) -> list[Sample]:
        """Return all finished samples in the order of the requests."""
        with self._sqlite_errors_as_pliant_errors():
            return [
                self._sample(row)
                for row in self._db.execute(f"{_SAMPLE} ORDER BY number", (self.key,))
            ]

    def get(self, points: Sequence[Array]) -> list[Sample | None]:
        """Return the sample at each point (d,), or None if it is not finished."""
        with self._sqlite_errors_as_pliant_errors():
            rows = [
                self._db.execute(f"{_SAMPLE} AND point = ?", (self.key, _bytes(x))).fetchone()
                for x in points
            ]
        return [None if row is None else self._sample(row) for row in rows]

    def claim(self, points: Sequence[Array], near: Sequence[Array | None] = ()) -> list[int]:
        """Claim points (d,) for this process. Return the indices of those that are neither finished
        nor claimed by another running process, without duplicates. `near` is the known point of
        each warm start; the first claim of a point sets it."""
        mine: dict[bytes, int] = {}
        wanted = [_bytes(x) for x in points]
        starts = [None if x is None else _bytes(x) for x in near] or len(wanted) * [None]
        with self._transaction():
            for index, (point, start) in enumerate(zip(wanted, starts, strict=True)):
                row = self._db.execute(
                    "SELECT value IS NULL, asker FROM corners WHERE model = ? AND point = ?",
                    (self.key, point),
                ).fetchone()
                if row is None or (row[0] and not self._claimed_by_running_process(row[1])):
                    mine.setdefault(point, index)
                    self._db.execute(
                        "INSERT INTO corners (model, point, asker, near) VALUES (?, ?, ?, ?) "
                        "ON CONFLICT DO UPDATE SET asker = excluded.asker",
                        (self.key, point, self._token, start),
                    )
        return list(mine.values())

    def warm_starts(self, points: Sequence[Array]) -> list[Sample | None]:
        """Return the warm starts of points. The first claim of a point sets its warm start, so that
        a resumed run uses the same one."""
        query = "SELECT near FROM corners WHERE model = ? AND point = ?"
        with self._sqlite_errors_as_pliant_errors():
            rows = [self._db.execute(query, (self.key, _bytes(x))).fetchone() for x in points]
        return [
            None if row is None or row[0] is None else self.get([_numbers(row[0])])[0]
            for row in rows
        ]

    def release(self, points: Sequence[Array]) -> None:
        """Release claimed points that this process will not compute."""
        with self._transaction():
            for x in points:
                self._db.execute(
                    "UPDATE corners SET asker = '' WHERE model = ? AND point = ? AND asker = ? "
                    "AND value IS NULL",
                    (self.key, _bytes(x), self._token),
                )

    def put(self, sample: Sample) -> None:
        """Store a finished or failed sample on disk. The first sample at a point is kept. Raises
        InputError for wrong shapes."""
        point = _bytes(sample.point)
        d, n = len(point) // 8, np.size(sample.value)
        if np.shape(sample.value) != (n,) or np.shape(sample.slope) != (n, d):
            raise InputError(
                f"A sample at a point of {counted(d, 'number')} has a value of shape "
                f"{np.shape(sample.value)} and a slope of shape {np.shape(sample.slope)}. Give "
                f"(N,) and (N, {d})."
            )
        parts = (
            point,
            *(np.asarray(part, "<f8").tobytes() for part in (sample.value, sample.slope)),
            *(text.encode(errors="backslashreplace") for text in (sample.note, sample.failed)),
        )
        with self._transaction():
            self._db.execute(
                "INSERT INTO corners (point, value, slope, note, failed, checksum, model, asker) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = "
                "excluded.value, slope = excluded.slope, note = excluded.note, failed = "
                "excluded.failed, checksum = excluded.checksum WHERE value IS NULL",
                (*parts, _checksum(*parts), self.key, self._token),
            )

    def wait(self, points: Sequence[Array]) -> list[Sample | None]:
        """Wait until no other process computes any of the points. Return their samples; None if a
        process died, and then claim the point again."""
        left = [_bytes(x) for x in points]
        while left := [point for point in left if self._computed_elsewhere(point)]:
            time.sleep(POLL_INTERVAL)
        return self.get(points)

    def pending(self) -> list[Array]:
        """Return the unfinished points of processes that ended, in the order of the requests."""
        with self._sqlite_errors_as_pliant_errors():
            rows = self._db.execute(
                "SELECT point, asker FROM corners WHERE model = ? AND value IS NULL ORDER BY "
                "number",
                (self.key,),
            ).fetchall()
        return [
            _numbers(point)
            for point, asker in rows
            if asker != self._token and not self._claimed_by_running_process(asker)
        ]

    def claim_owners(self, level: int, corners: Array, cell: Array, lattice: str = "") -> Array:
        """Return the cells (n, d) that own the corners (n, d) of a level of a lattice. A corner
        without owner gets `cell` (d,). Raises InputError for damaged files and wrong shapes."""
        corners, cell = np.asarray(corners), np.asarray(cell)
        if (
            corners.ndim != 2
            or cell.shape != corners.shape[1:]
            or corners.dtype.kind not in "iu"
            or cell.dtype.kind not in "iu"
        ):
            raise InputError(
                f"The corners are {corners.dtype} of shape {corners.shape}, the cell is "
                f"{cell.dtype} of shape {cell.shape}. Give integers of shape (n, d) and "
                "(d,)."
            )
        mine, owners = cell.astype("<i8").tobytes(), []
        with self._transaction():
            for corner in corners.astype("<i8"):
                place = (f"{self.key} {lattice}", int(level), corner.tobytes())
                record = mine + _checksum(corner.tobytes(), mine).to_bytes(4, "little")
                self._db.execute(
                    "INSERT OR IGNORE INTO owners (model, level, corner, cell) VALUES (?, ?, ?, ?)",
                    (*place, record),
                )
                row = self._db.execute(
                    "SELECT cell FROM owners WHERE model = ? AND level = ? AND corner = ?", place
                ).fetchone()
                blob = row[0] if row and isinstance(row[0], bytes) else b""
                if (
                    len(blob) != len(record)
                    or _checksum(corner.tobytes(), blob[:-4]).to_bytes(4, "little") != blob[-4:]
                ):
                    raise InputError(
                        f"{self.path} is damaged (the owner of a corner has a wrong checksum). "
                        "Delete it and compute again, or restore it from a copy."
                    )
                owners.append(blob[:-4])
        return np.frombuffer(b"".join(owners), "<i8").astype(np.int64).reshape(corners.shape)

    def close(self) -> None:
        """Close the file. Other processes may compute the unfinished points."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        """Check that the file belongs to Pliant before any change, and create the tables of a new
        file."""
        queries = (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_master",
        )
        application, version, tables = (self._db.execute(query).fetchone()[0] for query in queries)
        if application != APPLICATION_ID and (application or tables):
            raise InputError(
                f"{self.path} is a database of another program. Give another name for the corners."
            )
        if version > FORMAT_VERSION:
            raise InputError(
                f"{self.path} was written by a newer Pliant (version {version} of such files, "
                f"here {FORMAT_VERSION}). Update Pliant, or give another name."
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        # a power failure loses no sample; each takes seconds to compute
        self._db.execute("PRAGMA synchronous = FULL")
        if not tables:
            with self._transaction():
                for statement in (
                    *_TABLES,
                    f"PRAGMA application_id = {APPLICATION_ID}",
                    f"PRAGMA user_version = {FORMAT_VERSION}",
                ):
                    self._db.execute(statement)

    def _sample(self, row: tuple[Any, ...]) -> Sample:
        number, checksum, *parts = row
        if not all(isinstance(part, bytes) for part in parts) or _checksum(*parts) != checksum:
            raise InputError(
                f"{self.path} is damaged (corner {number} has a wrong checksum). Delete it and "
                "compute again, or restore it from a copy."
            )
        point, value, slope = map(_numbers, parts[:3])
        return Sample(
            point=point,
            value=value,
            slope=slope.reshape(value.size, point.size),
            note=parts[3].decode(),
            failed=parts[4].decode(),
        )

    def _computed_elsewhere(self, point: bytes) -> bool:
        with self._sqlite_errors_as_pliant_errors():
            row = self._db.execute(
                "SELECT asker FROM corners WHERE model = ? AND point = ? AND value IS NULL",
                (self.key, point),
            ).fetchone()
        return row is not None and self._claimed_by_running_process(row[0])

    def _claimed_by_running_process(self, token: str) -> bool:
        return (
            self._lock_folder is not None
            and token != ""
            and token != self._token
            and _is_locked(self._lock_folder / token)
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._sqlite_errors_as_pliant_errors():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _sqlite_errors_as_pliant_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:  # an error of the program, such as a closed store
            raise
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            kind, why = _REMEDY.get(
                code,
                (
                    PliantError,
                    "check the free memory and the health of the disk, or choose another file",
                ),
            )
            raise kind(
                f"{self.path or 'The store of corners in memory'} cannot be used ({error}): {why}."
            ) from error

    @contextmanager
    def _opening_lock(self) -> Iterator[None]:
        """Lock the opening of the file. SQLite does not wait when it switches to WAL, and lock
        files of ended processes are removed here."""
        if self._lock_folder is None:
            yield
            return
        with translate_write_errors(self._lock_folder, 0):
            if self.path is not None and self.path.is_dir():
                raise InputError(
                    f"{self.path} is a folder. Give the name of a file for the corners."
                )
            if not self._lock_folder.parent.exists():
                raise InputError(
                    f"The folder of the store {self.path} does not exist. Create it, or correct "
                    "the path."
                )
            self._lock_folder.mkdir(exist_ok=True)
            file = (self._lock_folder / ".opening").open("w")
        with file:
            _flock(file.fileno(), wait=True)
            yield


@contextmanager
def _process_lock(folder: Path, token: str) -> Iterator[None]:
    """Lock a file for the lifetime of this process. The system releases the lock however the
    process ends."""
    path = folder / token
    with translate_write_errors(path, 0):
        for other in folder.iterdir():
            if other.name != ".opening" and not _is_locked(other):
                other.unlink(missing_ok=True)
        file = path.open("w")
    try:
        with file:
            _flock(file.fileno(), wait=False)
            yield
    finally:
        with suppress(OSError):
            path.unlink()


def _is_locked(path: Path) -> bool:
    if os.name == "nt":  # no flock on Windows, but an open file cannot be deleted
        with suppress(PermissionError):
            path.unlink(missing_ok=True)
        return path.exists()
    import fcntl

    try:
        with path.open() as file:
            # shared: two checks at once do not block each other
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _flock(handle: int, *, wait: bool) -> None:
    if os.name != "nt":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _bytes(point: Array) -> bytes:
    return (
        (finite_array("The point of a sample", point, (None,)) + 0.0).astype("<f8").tobytes()
    )  # -0.0 + 0.0 is 0.0


def _numbers(blob: bytes) -> Array:
    return np.frombuffer(blob, "<f8").astype(float)


def _checksum(*parts: bytes) -> int:
    return zlib.crc32(b"".join(len(part).to_bytes(8, "little") + part for part in parts))
