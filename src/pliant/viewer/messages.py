"""Messages between server and page: binary messages to the page, short JSON texts from it."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pliant.core import Array, InputError, counted

MAX_MESSAGE_BYTES = 16_384  # of a message from the page


def encode_message(head: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return a message to the page: the length of a JSON head as uint32, the head padded to whole
    words, then the arrays.

    Floats are sent as float32 and integers as int32, all little endian, so that the browser reads
    them without a copy.
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


def decode_message(text: str | bytes) -> dict[str, Any]:
    """Return a message from the page: a JSON object with a "type". Raises `InputError` if the text
    is anything else, or contains NaN or infinity."""
    if not isinstance(text, str):
        sent = counted(len(text), "byte")
        raise InputError(f"The page sent {sent} instead of a JSON text; reload it.")
    try:
        # as float: an integer may have more digits than an array can store
        message = json.loads(text, parse_constant=_refuse_constant, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"The page sent a text that is not JSON ({str(error)[:80]}); reload it."
        ) from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise InputError(
            'The page sent JSON without a message type; a message is an object such as {"type": '
            '"pause", "on": true}.'
        )
    return message


def _refuse_constant(text: str) -> None:
    raise ValueError(f"it contains {text}, which is not a number")
