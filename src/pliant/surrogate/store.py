"""CornerStore: exact evaluations in one SQLite file, shared by the processes of a machine and safe
against kill -9."""

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

from pliant.core import Array, InputError, PliantError, finite_array, require_kind
from pliant.store.files import os_errors_as_sentences
from pliant.surrogate.sample import Sample

APPLICATION = int.from_bytes(b"Plnt", "big")  # says in the header of an SQLite file whose it is
VERSION = 1
PATIENCE = 60.0  # [s] for another process that writes
PAUSE = 0.05  # [s] between two looks at what others compute

# a corner is unfinished while its value is NULL; its number is its place in the order of asking
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
_DAMAGED = (InputError, "it is damaged; delete it and compute again, or restore it from a copy")
_NO_WRITING = (
    PliantError,
    "you may not write there; change the permissions, or choose another place",
)
_REMEDY: dict[int, tuple[type[PliantError], str]] = {
    sqlite3.SQLITE_FULL: (
        PliantError,
        "the disk is full; free some space, or choose another place",
    ),
    sqlite3.SQLITE_BUSY: (
        PliantError,
        "another program keeps it locked; end that program, or choose another file",
    ),
    sqlite3.SQLITE_IOERR: (
        PliantError,
        "the disk does not answer; see that it has space and is sound, or choose another place",
    ),
    sqlite3.SQLITE_READONLY: _NO_WRITING,
    sqlite3.SQLITE_CANTOPEN: _NO_WRITING,
    sqlite3.SQLITE_PERM: _NO_WRITING,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # a table or a column is not there
    sqlite3.SQLITE_NOTADB: (
        InputError,
        "it holds something else than corners; delete it, or give another name",
    ),
}


class CornerStore:
    """The samples of one model, in a file that other processes and other models may use too, or in
    memory; used with `with`."""

    def __init__(self, path: str | Path | None, *, key: str) -> None:
        """`key` is the content hash of the model; without a path all is kept in memory, for this
        process alone."""
        require_kind(
            "The key of a store of corners", key, str, "give the content hash of the model as text"
        )
        self.path = None if path is None else Path(os.path.realpath(path))
        self.key = key
        self._token = secrets.token_hex(8)
        self._life = None if self.path is None else self.path.with_name(self.path.name + ".alive")
        with ExitStack() as stack, self._alone():
            if self._life is not None:
                stack.enter_context(_alive(self._life, self._token))
            with self._errors_as_sentences():
                self._db = sqlite3.connect(
                    self.path or ":memory:", timeout=PATIENCE, isolation_level=None
                )
                stack.callback(self._db.close)
                self._prepare()
            self._held = stack.pop_all()

    def samples(self) -> list[Sample]:
        """All finished ones, in the order in which they were asked for."""
        with self._errors_as_sentences():
            return [
                self._sample(row)
                for row in self._db.execute(f"{_SAMPLE} ORDER BY number", (self.key,))
            ]

    def get(self, points: Sequence[Array]) -> list[Sample | None]:
        """The sample at each point (d,), None where there is no finished one."""
        with self._errors_as_sentences():
            rows = [
                self._db.execute(f"{_SAMPLE} AND point = ?", (self.key, _bytes(x))).fetchone()
                for x in points
            ]
        return [None if row is None else self._sample(row) for row in rows]

    def ask(self, points: Sequence[Array], near: Sequence[Array | None] = ()) -> list[int]:
        """Which of the points (d,) to compute now: the first of each that is neither finished nor
        computed by another living process. `near` is the known point that each is to start from;
        what was said when a point was first asked for stays."""
        mine: dict[bytes, int] = {}
        wanted = [_bytes(x) for x in points]
        starts = [None if x is None else _bytes(x) for x in near] or len(wanted) * [None]
        with self._transaction():
            for index, (point, start) in enumerate(zip(wanted, starts, strict=True)):
                row = self._db.execute(
                    "SELECT value IS NULL, asker FROM corners WHERE model = ? AND point = ?",
                    (self.key, point),
                ).fetchone()
                if row is None or (row[0] and not self._another_lives(row[1])):
                    mine.setdefault(point, index)
                    self._db.execute(
                        "INSERT INTO corners (model, point, asker, near) VALUES (?, ?, ?, ?) "
                        "ON CONFLICT DO UPDATE SET asker = excluded.asker",
                        (self.key, point, self._token, start),
                    )
        return list(mine.values())

    def starts(self, points: Sequence[Array]) -> list[Sample | None]:
        """The samples that points were to start from when they were first asked for: a run that
        goes on starts from the same ones."""
        question = "SELECT near FROM corners WHERE model = ? AND point = ?"
        with self._errors_as_sentences():
            rows = [self._db.execute(question, (self.key, _bytes(x))).fetchone() for x in points]
        return [
            None if row is None or row[0] is None else self.get([_numbers(row[0])])[0]
            for row in rows
        ]

    def release(self, points: Sequence[Array]) -> None:
        """Points that were asked for and will not be put, after all, are for others to compute."""
        with self._transaction():
            for x in points:
                self._db.execute(
                    "UPDATE corners SET asker = '' WHERE model = ? AND point = ? AND asker = ? "
                    "AND value IS NULL",
                    (self.key, _bytes(x), self._token),
                )

    def put(self, sample: Sample) -> None:
        """Keep a finished or failed sample, on disk when this returns; the first one at a point
        stays."""
        point = _bytes(sample.point)
        d, n = len(point) // 8, np.size(sample.value)
        if np.shape(sample.value) != (n,) or np.shape(sample.slope) != (n, d):
            raise InputError(
                f"A sample at a point of {d} numbers has a value of shape "
                f"{np.shape(sample.value)} and a slope of shape {np.shape(sample.slope)}; give "
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
        """The samples at points, when no other process computes any of them; None where one died
        before its end: ask again."""
        left = [_bytes(x) for x in points]
        while left := [point for point in left if self._computed_elsewhere(point)]:
            time.sleep(PAUSE)
        return self.get(points)

    def pending(self) -> list[Array]:
        """The points whose process ended before they were finished, in the order of asking."""
        with self._errors_as_sentences():
            rows = self._db.execute(
                "SELECT point, asker FROM corners WHERE model = ? AND value IS NULL ORDER BY "
                "number",
                (self.key,),
            ).fetchall()
        return [
            _numbers(point)
            for point, asker in rows
            if asker != self._token and not self._another_lives(asker)
        ]

    def own(self, level: int, corners: Array, cell: Array, lattice: str = "") -> Array:
        """(n, d) the cell that owns each of the corners (n, d) of a level of a lattice: the first
        that claimed it, else `cell` (d,) from now on."""
        corners, cell = np.asarray(corners), np.asarray(cell)
        if (
            corners.ndim != 2
            or cell.shape != corners.shape[1:]
            or corners.dtype.kind not in "iu"
            or cell.dtype.kind not in "iu"
        ):
            raise InputError(
                f"The corners are {corners.dtype} of shape {corners.shape}, the cell is "
                f"{cell.dtype} of shape {cell.shape}; give whole numbers of shape (n, d) and "
                "(d,)."
            )
        mine, owners = cell.astype("<i8").tobytes(), []
        with self._transaction():
            for corner in corners.astype("<i8"):
                place = (f"{self.key} {lattice}", int(level), corner.tobytes())
                said = mine + _checksum(corner.tobytes(), mine).to_bytes(4, "little")
                self._db.execute(
                    "INSERT OR IGNORE INTO owners (model, level, corner, cell) VALUES (?, ?, ?, ?)",
                    (*place, said),
                )
                row = self._db.execute(
                    "SELECT cell FROM owners WHERE model = ? AND level = ? AND corner = ?", place
                ).fetchone()
                blob = row[0] if row and isinstance(row[0], bytes) else b""
                if (
                    len(blob) != len(said)
                    or _checksum(corner.tobytes(), blob[:-4]).to_bytes(4, "little") != blob[-4:]
                ):
                    raise InputError(
                        f"{self.path} is damaged (the owner of a corner has another checksum); "
                        "delete it and compute again, or restore it from a copy."
                    )
                owners.append(blob[:-4])
        return np.frombuffer(b"".join(owners), "<i8").astype(np.int64).reshape(corners.shape)

    def close(self) -> None:
        """Let go of the file; what was asked for and not put is for others to compute."""
        self._held.close()

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
        """Check that the file is ours before anything is changed in it, and make the tables of a
        new one."""
        questions = (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_master",
        )
        application, version, tables = (
            self._db.execute(question).fetchone()[0] for question in questions
        )
        if application != APPLICATION and (application or tables):
            raise InputError(
                f"{self.path} is a database of another program; give another name for the corners."
            )
        if version > VERSION:
            raise InputError(
                f"{self.path} was written by a newer Pliant (version {version} of such files, "
                f"here {VERSION}); update Pliant, or give another name."
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(
            "PRAGMA synchronous = FULL"
        )  # a loss of power loses no sample either, and each took seconds
        if not tables:
            with self._transaction():
                for statement in (
                    *_TABLES,
                    f"PRAGMA application_id = {APPLICATION}",
                    f"PRAGMA user_version = {VERSION}",
                ):
                    self._db.execute(statement)

    def _sample(self, row: tuple[Any, ...]) -> Sample:
        number, checksum, *parts = row
        if not all(isinstance(part, bytes) for part in parts) or _checksum(*parts) != checksum:
            raise InputError(
                f"{self.path} is damaged (corner {number} has another checksum); delete it and "
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
        with self._errors_as_sentences():
            row = self._db.execute(
                "SELECT asker FROM corners WHERE model = ? AND point = ? AND value IS NULL",
                (self.key, point),
            ).fetchone()
        return row is not None and self._another_lives(row[0])

    def _another_lives(self, token: str) -> bool:
        return (
            self._life is not None
            and token != ""
            and token != self._token
            and _lives(self._life / token)
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors_as_sentences():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _errors_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except (
            sqlite3.ProgrammingError
        ):  # a closed store, another thread: a mistake in the program, not in the file
            raise
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            kind, why = _REMEDY.get(
                code,
                (
                    PliantError,
                    "see that there is memory and that the disk is sound, or choose another file",
                ),
            )
            raise kind(
                f"{self.path or 'The store of corners in memory'} cannot be used ({error}): {why}."
            ) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No two processes open the file at once: SQLite does not wait its turn when it changes to
        WAL, and the dead are buried here."""
        if self._life is None:
            yield
            return
        with os_errors_as_sentences(self._life, 0):
            if self.path is not None and self.path.is_dir():
                raise InputError(
                    f"{self.path} is a folder; give the name of a file for the corners."
                )
            self._life.mkdir(parents=True, exist_ok=True)
            file = (self._life / ".opening").open("w")
        with file:
            _flock(file.fileno(), wait=True)
            yield


@contextmanager
def _alive(folder: Path, token: str) -> Iterator[None]:
    """This process is alive as long as it holds the lock on a file of its own, which the system
    frees however the process ends."""
    path = folder / token
    with os_errors_as_sentences(path, 0):
        for other in folder.iterdir():
            if other.name != ".opening" and not _lives(other):
                other.unlink(missing_ok=True)
        file = path.open("w")
    try:
        with file:
            _flock(file.fileno(), wait=False)
            yield
    finally:
        with suppress(OSError):
            path.unlink()


def _lives(path: Path) -> bool:
    if os.name == "nt":  # no flock there, but an open file cannot be deleted
        with suppress(PermissionError):
            path.unlink(missing_ok=True)
        return path.exists()
    import fcntl

    try:
        with path.open() as file:
            fcntl.flock(
                file, fcntl.LOCK_SH | fcntl.LOCK_NB
            )  # shared: two that look at once do not take each other for the owner
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
