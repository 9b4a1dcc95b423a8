"""Vectors of four float64 numbers in one SIMD register, for compiled loops over rows of four.

Rows of float32 are widened when loaded and rounded when stored. Sums and products may be fused.
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

# Numba's annotation of `intrinsic` includes the typing context, which callers do not pass.
intrinsic: Any = _intrinsic
FASTMATH_FLAGS = tuple(FAST)
LLVM_VECTOR = ir.VectorType(ir.DoubleType(), 4)


class Vector4Type(types.Type):
    """The Numba type of a vector of four numbers."""

    def __init__(self) -> None:
        super().__init__(name="Vector4")


VECTOR4 = Vector4Type()


@register_model(Vector4Type)
class _Vector4Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, LLVM_VECTOR)


def _row(context: Any, builder: Any, kind: Any, array: Any, i: Any) -> tuple[Any, Any]:
    """Return a pointer to row i of a contiguous array (n, 4) as a vector, and its alignment in
    bytes."""
    first = builder.gep(
        context.make_array(kind)(context, builder, array).data, [builder.mul(i, i.type(4))]
    )
    scalar = ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType()
    return builder.bitcast(first, ir.VectorType(scalar, 4).as_pointer()), kind.dtype.bitwidth // 8


def _check(array: Any) -> None:
    """Raise `TypingError` unless a Numba type is a contiguous 2D array of floats."""
    is_supported = (
        isinstance(array, types.Array)
        and (array.ndim, array.layout) == (2, "C")
        and array.dtype in (types.float32, types.float64)
    )
    if not is_supported:
        raise TypingError(
            f"SIMD vectors are rows of a contiguous array (n, 4) of float32 or float64, not of "
            f"{array}"
        )


@intrinsic
def load(typing: Any, array: Any, i: Any) -> Any:
    """Return row i of an array (n, 4). The index and the width are not checked."""
    _check(array)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, align = _row(context, builder, signature.args[0], *args)
        row = builder.load(pointer, align=align)
        return row if align == 8 else builder.fpext(row, LLVM_VECTOR)

    return VECTOR4(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, i: Any, vector4: Any) -> Any:
    """Write row i of a writable array (n, 4). The index and the width are not checked."""
    _check(array)
    if not array.mutable:
        raise TypingError(f"SIMD vectors cannot be stored in {array}, which is read-only")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, align = _row(context, builder, signature.args[0], *args[:2])
        builder.store(
            args[2] if align == 8 else builder.fptrunc(args[2], ir.VectorType(ir.FloatType(), 4)),
            pointer,
            align=align,
        )
        return context.get_dummy_value()

    return types.void(array, types.intp, VECTOR4), generate


@intrinsic
def vector4(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the vector (a, b, c, d)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = ir.Constant(LLVM_VECTOR, ir.Undefined)
        for k, scalar in enumerate(args):
            out = builder.insert_element(out, scalar, ir.IntType(32)(k))
        return out

    return VECTOR4(*[types.float64] * 4), generate


@intrinsic
def component(typing: Any, a: Any, k: Any) -> Any:
    """Return component k of a vector, k from 0 to 3."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(*args)

    return types.float64(VECTOR4, types.intp), generate


def _shuffle(builder: Any, a: Any, indices: list[int]) -> Any:
    return builder.shuffle_vector(
        a,
        ir.Constant(LLVM_VECTOR, ir.Undefined),
        ir.Constant(ir.VectorType(ir.IntType(32), 4), indices),
    )


def _broadcast(builder: Any, scalar: Any) -> Any:
    return _shuffle(
        builder,
        builder.insert_element(ir.Constant(LLVM_VECTOR, ir.Undefined), scalar, ir.IntType(32)(0)),
        [0] * 4,
    )


@intrinsic
def rotate_xyz(typing: Any, a: Any) -> Any:
    """Return (y, z, x, w) of a vector (x, y, z, w)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _shuffle(builder, args[0], [1, 2, 0, 3])

    return VECTOR4(VECTOR4), generate


@intrinsic
def broadcast_last(typing: Any, a: Any) -> Any:
    """Return (w, w, w, w) of a vector (x, y, z, w)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _shuffle(builder, args[0], [3] * 4)

    return VECTOR4(VECTOR4), generate


@intrinsic
def absolute(typing: Any, a: Any) -> Any:
    """Return the absolute values of a vector."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        fabs = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(LLVM_VECTOR, [LLVM_VECTOR]), "llvm.fabs.v4f64"
        )
        return builder.call(fabs, args)

    return VECTOR4(VECTOR4), generate


@intrinsic
def _sum(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(*args, flags=FASTMATH_FLAGS)

    return VECTOR4(VECTOR4, VECTOR4), generate


@intrinsic
def _difference(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fsub(*args, flags=FASTMATH_FLAGS)

    return VECTOR4(VECTOR4, VECTOR4), generate


@intrinsic
def _product(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fmul(*args, flags=FASTMATH_FLAGS)

    return VECTOR4(VECTOR4, VECTOR4), generate


@intrinsic
def _scaled(typing: Any, s: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fmul(_broadcast(builder, args[0]), args[1], flags=FASTMATH_FLAGS)

    return VECTOR4(types.float64, VECTOR4), generate


def _all_instances(kind: type, *values: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


@overload(operator.iadd, strict=False)
@overload(operator.add, strict=False)
def _add(a: Any, b: Any) -> Any:
    return (lambda a, b: _sum(a, b)) if _all_instances(Vector4Type, a, b) else None


@overload(operator.sub, strict=False)
def _sub(a: Any, b: Any) -> Any:
    return (lambda a, b: _difference(a, b)) if _all_instances(Vector4Type, a, b) else None


@overload(operator.mul, strict=False)
def _mul(a: Any, b: Any) -> Any:
    """Return the product of two vectors, or of a scalar and a vector."""
    if _all_instances(Vector4Type, a, b):
        return lambda a, b: _product(a, b)
    return (
        (lambda a, b: _scaled(a, b))
        if _all_instances(types.Float, a) and _all_instances(Vector4Type, b)
        else None
    )
