"""Four numbers side by side in one register, which a processor adds and multiplies at once: for
compiled loops over rows of four.

`Lanes` are float64; rows of float32 are widened when loaded and rounded when stored. Sums and
products may be fused.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, overload, register_model

from pliant.kernels.matrix import FAST

intrinsic: Any = (
    _intrinsic  # its own type asks callers for the typing context, which the compiler gives
)
FUSED = tuple(FAST)
WIDE = ir.VectorType(ir.DoubleType(), 4)


class LanesType(types.Type):
    """The type of Lanes in compiled code."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, WIDE)


def _row(context: Any, builder: Any, kind: Any, table: Any, i: Any) -> tuple[Any, Any]:
    """(a pointer to row i of a contiguous table (n, 4) as a vector, the bytes that it is aligned
    to)."""
    first = builder.gep(
        context.make_array(kind)(context, builder, table).data, [builder.mul(i, i.type(4))]
    )
    number = ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType()
    return builder.bitcast(first, ir.VectorType(number, 4).as_pointer()), kind.dtype.bitwidth // 8


def _check(table: Any) -> None:
    known = (
        isinstance(table, types.Array)
        and (table.ndim, table.layout) == (2, "C")
        and table.dtype in (types.float32, types.float64)
    )
    if not known:
        raise TypingError(
            f"lanes are rows of a contiguous table (n, 4) of float32 or float64, not of {table}"
        )


# Neither looks whether row i is there, or four wide: the caller does


@intrinsic
def load(typing, table, i):
    """Row i of a table (n, 4)."""
    _check(table)

    def make(context, builder, signature, args):
        at, align = _row(context, builder, signature.args[0], *args)
        row = builder.load(at, align=align)
        return row if align == 8 else builder.fpext(row, WIDE)

    return LANES(table, types.intp), make


@intrinsic
def store(typing, table, i, lanes):
    """Write row i of a table (n, 4) that may be written to."""
    _check(table)
    if not table.mutable:
        raise TypingError(f"lanes are not written to {table}, which is for reading")

    def make(context, builder, signature, args):
        at, align = _row(context, builder, signature.args[0], *args[:2])
        builder.store(
            args[2] if align == 8 else builder.fptrunc(args[2], ir.VectorType(ir.FloatType(), 4)),
            at,
            align=align,
        )
        return context.get_dummy_value()

    return types.void(table, types.intp, LANES), make


@intrinsic
def lanes(typing, a, b, c, d):
    """Four numbers as lanes."""

    def make(context, builder, signature, args):
        out = ir.Constant(WIDE, ir.Undefined)
        for k, number in enumerate(args):
            out = builder.insert_element(out, number, ir.IntType(32)(k))
        return out

    return LANES(*[types.float64] * 4), make


@intrinsic
def lane(typing, a, k):
    """One of the four, from 0."""

    def make(context, builder, signature, args):
        return builder.extract_element(*args)

    return types.float64(LANES, types.intp), make


def _picked(builder: Any, a: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(
        a, ir.Constant(WIDE, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), 4), places)
    )


def _broadcast(builder: Any, number: Any) -> Any:
    return _picked(
        builder,
        builder.insert_element(ir.Constant(WIDE, ir.Undefined), number, ir.IntType(32)(0)),
        [0] * 4,
    )


@intrinsic
def turned(typing, a):
    """(y, z, x, w) of (x, y, z, w)."""

    def make(context, builder, signature, args):
        return _picked(builder, args[0], [1, 2, 0, 3])

    return LANES(LANES), make


@intrinsic
def last(typing, a):
    """(w, w, w, w) of (x, y, z, w)."""

    def make(context, builder, signature, args):
        return _picked(builder, args[0], [3] * 4)

    return LANES(LANES), make


@intrinsic
def sizes(typing, a):
    """Each without its sign."""

    def make(context, builder, signature, args):
        fabs = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(WIDE, [WIDE]), "llvm.fabs.v4f64"
        )
        return builder.call(fabs, args)

    return LANES(LANES), make


@intrinsic
def _sum(typing, a, b):
    def make(context, builder, signature, args):
        return builder.fadd(*args, flags=FUSED)

    return LANES(LANES, LANES), make


@intrinsic
def _difference(typing, a, b):
    def make(context, builder, signature, args):
        return builder.fsub(*args, flags=FUSED)

    return LANES(LANES, LANES), make


@intrinsic
def _product(typing, a, b):
    def make(context, builder, signature, args):
        return builder.fmul(*args, flags=FUSED)

    return LANES(LANES, LANES), make


@intrinsic
def _scaled(typing, s, a):
    def make(context, builder, signature, args):
        return builder.fmul(_broadcast(builder, args[0]), args[1], flags=FUSED)

    return LANES(types.float64, LANES), make


def _are(kind: type, *found: Any) -> bool:
    return all(isinstance(each, kind) for each in found)


@overload(operator.iadd)
@overload(operator.add)
def _add(a, b):
    return (lambda a, b: _sum(a, b)) if _are(LanesType, a, b) else None


@overload(operator.sub)
def _sub(a, b):
    return (lambda a, b: _difference(a, b)) if _are(LanesType, a, b) else None


@overload(operator.mul)
def _mul(a, b):
    """Lanes times lanes, or a number times lanes."""
    if _are(LanesType, a, b):
        return lambda a, b: _product(a, b)
    return (lambda a, b: _scaled(a, b)) if _are(types.Float, a) and _are(LanesType, b) else None
