"""What goes over the wire: binary messages to the page, small JSON texts from it."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pliant.core import Array, InputError

MOST_BYTES = 16_384  # of a message from the page


def packed(head: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """A message to the page: the length of a JSON head as uint32, the head padded to whole words,
    then the arrays that it names.

    Floats go as float32 and integers as int32, all little endian, so that the browser looks at them
    without a copy.
    """
    blocks = [
        (name, np.ascontiguousarray(array, dtype="<i4" if array.dtype.kind in "iu" else "<f4"))
        for name, array in arrays.items()
    ]
    named = {**head, "blocks": [[name, block.dtype.kind, block.size] for name, block in blocks]}
    text = json.dumps(named, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    return b"".join(
        [len(text).to_bytes(4, "little"), text, *(block.tobytes() for _, block in blocks)]
    )


def understood(text: str | bytes) -> dict[str, Any]:
    """A message from the page, or a sentence: a JSON object that says something, without NaN or
    infinity."""
    if not isinstance(text, str):
        raise InputError(
            f"The page sent {len(text)} bytes, but it speaks in JSON texts; reload it."
        )
    try:
        message = json.loads(
            text, parse_constant=_refuse, parse_int=float
        )  # a whole number may have more digits than an array holds
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"The page sent what is not JSON ({str(error)[:80]}); reload it."
        ) from None
    if not isinstance(message, dict) or not isinstance(message.get("say"), str):
        raise InputError(
            'The page sent JSON that says nothing; a message is an object such as {"say": '
            '"pause", "on": true}.'
        )
    return message


def _refuse(text: str) -> None:
    raise ValueError(f"it holds {text}, which is no number")
