"""What a benchmark gives."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Report:
    """Tables (title, columns, rows) to print, and the numbers behind them."""

    tables: list[tuple[str, list[str], list[list[str]]]]
    notes: list[str]
    numbers: Any
