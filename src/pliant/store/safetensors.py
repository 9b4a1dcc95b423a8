"""The safetensors format: named arrays in one file, read without running any code.

A file is the length of the header (8 bytes, little endian), the header (JSON: name -> dtype, shape,
data_offsets), and the numbers. The library of that name reads these files too; Pliant needs no
more than this page of it, so training without torch needs no extra package.
"""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, InputError, is_integer
from pliant.store.files import read_bytes

MAX_HEADER = 100_000_000  # [bytes] as in the safetensors library
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1"}
_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


def safetensors_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Return the content of a safetensors file. Equal arrays give equal bytes.

    Raises InputError for arrays that are not of the types float64, float32, int64 or uint8.
    """
    header: dict[str, Any] = {}
    parts, start = [], 0
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name]).reshape(np.shape(arrays[name]))
        kind = _NAMES.get(array.dtype.newbyteorder("<"))
        if kind is None:
            raise InputError(
                f"The array '{name}' has the type {array.dtype}; give one of "
                f"{', '.join(str(dtype) for dtype in _NAMES)}."
            )
        data = array.astype(DTYPES[kind]).tobytes()
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [start, start + len(data)],
        }
        start += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the numbers are aligned
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_safetensors(path: str | Path) -> dict[str, Array]:
    """Return the arrays in a safetensors file.

    Raises InputError if the file is missing, damaged, or no safetensors file.
    """
    return parse_safetensors(read_bytes(Path(path)), str(path))


def parse_safetensors(blob: bytes, where: str) -> dict[str, Array]:
    """Return the arrays in the content of a safetensors file. `where` names it in errors."""
    try:
        return _parsed(blob)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{where} is not a valid safetensors file ({_short(error)}). Restore it from a copy."
        ) from None


def _short(error: Exception) -> str:
    text = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return text.splitlines()[0][:100] if text else type(error).__name__


def _parsed(blob: bytes) -> dict[str, Array]:
    if len(blob) < 8:
        raise ValueError(f"it has {len(blob)} bytes")
    length = int.from_bytes(blob[:8], "little")
    if length > min(MAX_HEADER, len(blob) - 8):
        raise ValueError(f"its header claims {length} bytes, but {len(blob) - 8} follow")
    header = json.loads(blob[8 : 8 + length].decode())
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header.pop("__metadata__", None)
    data, out, ends = blob[8 + length :], {}, [0]
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        out[name] = _array(entry, data, ends[-1])
        ends.append(entry["data_offsets"][1])
    if ends[-1] != len(data):
        raise ValueError(f"its arrays have {ends[-1]} bytes, but {len(data)} follow the header")
    return out


def _array(entry: Mapping[str, Any], data: bytes, start: int) -> Array:
    """Return one array, whose numbers must begin at `start`."""
    code, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if code not in DTYPES:
        raise ValueError(f"it has numbers of the type {str(code)[:20]!r}")
    if not isinstance(shape, list) or not all(is_integer(n) and n >= 0 for n in shape):
        raise ValueError("it has an array with an invalid shape")
    dtype = np.dtype(DTYPES[code])
    if not (is_integer(begin) and is_integer(end)) or begin != start or not begin <= end:
        raise ValueError("its arrays overlap or leave gaps")
    if end > len(data) or end - begin != prod(shape) * dtype.itemsize:
        raise ValueError("the size of an array does not fit its shape")
    numbers = np.frombuffer(data[begin:end], dtype).reshape(shape)
    return numbers.astype(dtype.newbyteorder("="))
