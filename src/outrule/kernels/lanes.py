"""Explicit vectors for the batch kernels: one instance per lane, LANES instances at a time.

LLVM vectorises a loop over lanes only if it can prove that the rows of one buffer do not overlap,
and it cannot. So the inner loops that matter are written as vector code here.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

from outrule.kernels.picking import LARGEST

LANES = 16
BLOCK = 8

cgutils: Any = untyped_cgutils

_F64 = ir.DoubleType()
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _data(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    return context.make_array(array_type)(context, builder, value).data


def _load(builder: Any, pointer: Any, index: Any, width: int) -> Any:
    """The vector of `width` float64 that starts at pointer[index]; any alignment is allowed."""
    vector = ir.VectorType(_F64, width).as_pointer()
    return builder.load(builder.bitcast(builder.gep(pointer, [index]), vector), align=8)


def _store(builder: Any, value: Any, pointer: Any, index: Any) -> None:
    place = builder.bitcast(builder.gep(pointer, [index]), value.type.as_pointer())
    builder.store(value, place, align=8)


def _row(builder: Any, pointer: Any, index: Any) -> Any:
    """The offset of the row whose number is pointer[index]."""
    number = builder.sext(builder.load(builder.gep(pointer, [index])), _I64)
    return builder.mul(number, _I64(LANES))


def _store_best_sum(
    _: Any, rows: Any, choices: Any, left: Any, right: Any, begin: Any, end: Any, target: Any
) -> Any:
    """rows[target] = max of rows[left[t]] + rows[right[t]] over begin <= t < end; sums are >= 0.

    choices[target] = t - begin of the first t that attains the maximum.
    """
    signature = types.void(rows, choices, left, right, begin, end, target)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data, choice_data, left_data, right_data = (
            _data(context, builder, sig.args[k], args[k]) for k in range(4)
        )
        begin, end, target = args[4:]
        wide = ir.VectorType(_I64, LANES)
        best = cgutils.alloca_once_value(
            builder, ir.Constant(ir.VectorType(_F64, LANES), [-1.0] * LANES)
        )
        choice = cgutils.alloca_once_value(builder, ir.Constant(wide, [0] * LANES))
        with cgutils.for_range_slice(builder, begin, end, _I64(1)) as (step, _):
            first = _load(builder, data, _row(builder, left_data, step), LANES)
            second = _load(builder, data, _row(builder, right_data, step), LANES)
            total = builder.fadd(first, second)
            so_far = builder.load(best)
            larger = builder.fcmp_ordered(">", total, so_far)
            builder.store(builder.select(larger, total, so_far), best)
            number = _splat(builder, builder.sub(step, begin), LANES)
            builder.store(builder.select(larger, number, builder.load(choice)), choice)
        start = builder.mul(target, _I64(LANES))
        _store(builder, builder.load(best), data, start)
        narrow = builder.trunc(builder.load(choice), ir.VectorType(ir.IntType(8), LANES))
        place = builder.bitcast(builder.gep(choice_data, [start]), narrow.type.as_pointer())
        builder.store(narrow, place, align=1)
        return context.get_dummy_value()

    return signature, codegen


def _splat(builder: Any, value: Any, width: int) -> Any:
    """The vector that holds `value` in every lane."""
    empty = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    mask = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    return builder.shuffle_vector(builder.insert_element(empty, value, _I32(0)), empty, mask)


def _transpose(builder: Any, block: list[Any]) -> list[Any]:
    """Transpose a BLOCK x BLOCK block: swap the off-diagonal halves at distance 1, 2 and 4."""
    distance = 1
    while distance < BLOCK:
        block = list(block)
        upper = [k if not k & distance else BLOCK + k - distance for k in range(BLOCK)]
        lower = [k + distance if not k & distance else BLOCK + k for k in range(BLOCK)]
        for i in range(BLOCK):
            if not i & distance:
                a, b = block[i], block[i + distance]
                for place, mask in ((i, upper), (i + distance, lower)):
                    constant = ir.Constant(ir.VectorType(_I32, BLOCK), mask)
                    block[place] = builder.shuffle_vector(a, b, constant)
        distance *= 2
    return block


def _load_block(
    _: Any, weights: Any, scale: Any, first: Any, column: Any, places: Any, rows: Any, lane: Any
) -> Any:
    """Load BLOCK columns of BLOCK instances, scaled and cut at zero, into lanes of `rows`.

    Instances past the end repeat the last one. Column c lands in row places[c].
    """
    signature = types.void(weights, scale, first, column, places, rows, lane)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        matrix = context.make_array(sig.args[0])(context, builder, args[0])
        n, m = cgutils.unpack_tuple(builder, matrix.shape, 2)
        last = builder.sub(n, _I64(1))
        factor_data, place_data, row_data = (
            _data(context, builder, sig.args[k], args[k]) for k in (1, 4, 5)
        )
        _, _, first, column, _, _, lane = args
        factor = _load(builder, factor_data, column, BLOCK)
        zero = ir.Constant(factor.type, [0.0] * BLOCK)
        largest = ir.Constant(factor.type, [LARGEST] * BLOCK)
        block = []
        for k in range(BLOCK):
            instance = builder.add(first, _I64(k))
            inside = builder.icmp_signed("<", instance, last)
            start = builder.mul(builder.select(inside, instance, last), m)
            values = _load(builder, matrix.data, builder.add(start, column), BLOCK)
            values = builder.fmul(values, factor)
            positive = builder.fcmp_ordered(">", values, zero)
            values = builder.select(positive, values, zero)
            finite = builder.fcmp_ordered("<", values, largest)
            block.append(builder.select(finite, values, largest))
        for k, values in enumerate(_transpose(builder, block)):
            start = _row(builder, place_data, builder.add(column, _I64(k)))
            _store(builder, values, row_data, builder.add(start, lane))
        return context.get_dummy_value()

    return signature, codegen


def _prefetch(_: Any, values: Any, index: Any) -> Any:
    """Ask for the cache line of values.flat[index], which need not lie inside the array."""
    signature = types.void(values, index)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0])
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        call = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), kind)
        builder.call(call, [pointer, _I32(0), _I32(3), _I32(1)])  # to read, keep, data
        return context.get_dummy_value()

    return signature, codegen


store_best_sum: Any = intrinsic(_store_best_sum)
load_block: Any = intrinsic(_load_block)
prefetch: Any = intrinsic(_prefetch)
