"""The report of a benchmark."""

from dataclasses import dataclass
from typing import Any

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The tables (title, columns, rows) and notes of a benchmark, and the measured numbers."""

    tables: list[tuple[str, list[str], list[list[str]]]]
    notes: list[str]
    numbers: Any
