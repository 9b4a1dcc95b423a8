"""TOML text of nested tables, with numbers that are read back exactly."""

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_text(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """Return a table as TOML: values first, then its tables and lists of tables."""
    values = {key: value for key, value in table.items() if not _is_section(value)}
    text = "".join(f"{_key(key)} = {_value(value)}\n" for key, value in values.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            text += f"\n[{_dotted(path, key)}]\n{toml_text(value, (*path, key))}"
        elif _is_section(value):
            for row in value:
                text += f"\n[[{_dotted(path, key)}]]\n{toml_text(row, (*path, key))}"
    return text


def _is_section(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, Mapping) for row in value)
    return isinstance(value, Mapping)


def _dotted(path: tuple[str, ...], key: str) -> str:
    return ".".join(map(_key, (*path, key)))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _quoted(key)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)
