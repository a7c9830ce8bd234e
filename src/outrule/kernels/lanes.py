"""Explicit vectors for the batch kernels: one instance per lane, LANES instances at a time.

LLVM vectorises a loop over lanes only if it can prove that the rows of one buffer do not overlap,
and it cannot. So the inner loops that matter are written as vector code here.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from outrule.kernels.picking import LARGEST, scaled

LANES = 16
BLOCK = 8
# Elements of a set of which all subsets are computed together: 2**CUBE vectors in registers.
CUBE = 3

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


def _store_best_cube(
    _: Any, best: Any, profit: Any, start: Any, target: Any, high: Any, begin: Any, stride: Any
) -> Any:
    """best[target + low] = max of best[start + low] and of best[target + low - e] + gain of e.

    For all low < 2**CUBE at once, in BLOCK lanes; e runs over the bits of low and, CUBE bits
    higher, of `high`. With r = the number of bits in low, minus one, the gain of the bit number b
    is profit[begin + b * stride + r * LANES].
    """
    signature = types.void(best, profit, start, target, high, begin, stride)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        best_data, profit_data = (_data(context, builder, sig.args[k], args[k]) for k in range(2))
        start, target, high, begin, stride = args[2:]

        def place(state: Any, low: int) -> Any:
            return builder.mul(builder.add(state, _I64(low)), _I64(BLOCK))

        def gain(number: Any, row: int) -> Any:
            column = builder.add(begin, builder.mul(number, stride))
            return _load(builder, profit_data, builder.add(column, _I64(row * LANES)), BLOCK)

        so_far = [
            cgutils.alloca_once_value(builder, _load(builder, best_data, place(start, low), BLOCK))
            for low in range(1 << CUBE)
        ]
        rest = cgutils.alloca_once_value(builder, high)
        # Highest bit first: the lowest bit needs the cube that has only just been stored.
        with cgutils.for_range(builder, builder.ctpop(high)):
            bits = builder.load(rest)
            number = builder.sub(_I64(63), builder.ctlz(bits, ir.IntType(1)(True)))
            bit = builder.shl(_I64(1), number)
            builder.store(builder.xor(bits, bit), rest)
            source = builder.sub(target, builder.shl(bit, _I64(CUBE)))
            gains = [gain(builder.add(number, _I64(CUBE)), row) for row in range(-1, CUBE)]
            for low, value in enumerate(so_far):
                before = _load(builder, best_data, place(source, low), BLOCK)
                total = builder.fadd(before, gains[low.bit_count()])
                builder.store(_larger(builder, total, builder.load(value)), value)
        final = [builder.load(value) for value in so_far]
        for low in range(1 << CUBE):
            for number in range(CUBE):
                if low >> number & 1:
                    before = final[low ^ (1 << number)]
                    total = builder.fadd(before, gain(_I64(number), low.bit_count() - 1))
                    final[low] = _larger(builder, total, final[low])
            _store(builder, final[low], best_data, place(target, low))
        return context.get_dummy_value()

    return signature, codegen


def _larger(builder: Any, value: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", value, other), value, other)


def _trace_choices(
    _: Any, best: Any, profit: Any, last: Any, begin: Any, stride: Any, small: Any, choices: Any
) -> Any:
    """Go back from state `last`, through the rows of choices from the last to the first.

    In every one of BLOCK lanes, row r takes the lowest bit b of the state such that
    best[state - 2**b] + profit[begin + b * stride + r * LANES] equals best[state], or b = small if
    there is none; either way the state loses 2**b. There is no hardware gather: its LLVM intrinsic
    differs between the versions that Numba may use.
    """
    signature = types.void(best, profit, last, begin, stride, small, choices)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        best_data, profit_data = (_data(context, builder, sig.args[k], args[k]) for k in range(2))
        choice_array = context.make_array(sig.args[6])(context, builder, args[6])
        n_rows, _ = cgutils.unpack_tuple(builder, choice_array.shape, 2)
        last, begin, stride, small = args[2:6]
        wide = ir.VectorType(_I64, BLOCK)
        top = _load(builder, best_data, builder.mul(last, _I64(BLOCK)), BLOCK)
        states = cgutils.alloca_once_value(builder, _splat(builder, last, BLOCK))
        value = cgutils.alloca_once_value(builder, top)
        choice = cgutils.alloca_once(builder, wide)
        with cgutils.for_range_slice(
            builder, builder.sub(n_rows, _I64(1)), _I64(-1), _I64(-1), inc=False
        ) as (row, _):
            state, target = builder.load(states), builder.load(value)
            starts = [
                builder.mul(builder.extract_element(state, _I32(k)), _I64(BLOCK))
                for k in range(BLOCK)
            ]
            builder.store(_splat(builder, small, BLOCK), choice)
            # Descending, so that the lowest bit has the last word.
            with cgutils.for_range_slice(
                builder, builder.sub(small, _I64(1)), _I64(-1), _I64(-1), inc=False
            ) as (number, _):
                bit = builder.shl(_I64(1), number)
                others = builder.not_(builder.mul(bit, _I64(BLOCK)))
                before = ir.Constant(top.type, ir.Undefined)
                for k, start in enumerate(starts):
                    place = builder.add(builder.and_(start, others), _I64(k))
                    element = builder.load(builder.gep(best_data, [place]))
                    before = builder.insert_element(before, element, _I32(k))
                column = builder.add(begin, builder.mul(number, stride))
                cell = builder.add(column, builder.mul(row, _I64(LANES)))
                total = builder.fadd(before, _load(builder, profit_data, cell, BLOCK))
                held = builder.and_(state, _splat(builder, bit, BLOCK))
                held = builder.icmp_signed("!=", held, ir.Constant(wide, [0] * BLOCK))
                hit = builder.and_(held, builder.fcmp_ordered("==", total, target))
                number = _splat(builder, number, BLOCK)
                builder.store(builder.select(hit, number, builder.load(choice)), choice)
                builder.store(builder.select(hit, before, builder.load(value)), value)
            number = builder.load(choice)
            lost = builder.shl(ir.Constant(wide, [1] * BLOCK), number)
            builder.store(builder.sub(state, lost), states)
            pointer = builder.gep(choice_array.data, [builder.mul(row, _I64(BLOCK))])
            builder.store(number, builder.bitcast(pointer, wide.as_pointer()), align=8)
        return context.get_dummy_value()

    return signature, codegen


def _add_rows(
    _: Any, values: Any, picks: Any, begin: Any, end: Any, row: Any, width: Any, sums: Any, at: Any
) -> Any:
    """Add to sums[at:at + BLOCK] the row (row + t) * width + picks[begin + t] of values, for all t.

    The arrays are flat, a row of values has BLOCK integers, and t runs from 0 to end - begin; a
    pick of `width` or more is none.
    """
    signature = types.void(values, picks, begin, end, row, width, sums, at)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data, pick_data, sum_data = (
            _data(context, builder, sig.args[k], args[k]) for k in (0, 1, 6)
        )
        _, _, begin, end, row, width, _, at = args
        vector = ir.VectorType(_I64, BLOCK).as_pointer()
        place = builder.bitcast(builder.gep(sum_data, [at]), vector)
        total = cgutils.alloca_once_value(builder, builder.load(place, align=8))
        with cgutils.for_range_slice(builder, begin, end, _I64(1)) as (number, _):
            pick = builder.zext(builder.load(builder.gep(pick_data, [number])), _I64)
            with builder.if_then(builder.icmp_unsigned("<", pick, width), likely=True):
                instance = builder.add(row, builder.sub(number, begin))
                chosen = builder.add(builder.mul(instance, width), pick)
                start = builder.gep(data, [builder.mul(chosen, _I64(BLOCK))])
                more = builder.load(builder.bitcast(start, vector), align=8)
                builder.store(builder.add(builder.load(total), more), total)
        builder.store(builder.load(total), place, align=8)
        return context.get_dummy_value()

    return signature, codegen


store_best_sum: Any = intrinsic(_store_best_sum)
add_rows: Any = intrinsic(_add_rows)
load_block: Any = intrinsic(_load_block)
prefetch: Any = intrinsic(_prefetch)
store_best_cube: Any = intrinsic(_store_best_cube)
trace_choices: Any = intrinsic(_trace_choices)


@njit(nogil=True, cache=True)
def empty_rows(n_rows: int, width: int) -> NDArray[np.float64]:
    """n_rows * width zeros that start on a cache line."""
    raw = np.zeros(n_rows * width + 8)
    skip = (-(raw.ctypes.data >> 3)) & 7
    return raw[skip : skip + n_rows * width]


@njit(nogil=True, cache=True)
def load_lanes(
    weights: NDArray[np.float64],
    scale: NDArray[np.float64],
    places: NDArray[np.int32],
    first: int,
    rows: NDArray[np.float64],
) -> None:
    """Load LANES instances from `first` on; instances past the end repeat the last one."""
    n, m = weights.shape
    if m < BLOCK:
        for lane in range(LANES):
            instance = min(first + lane, n - 1)
            for item in range(m):
                value = scaled(weights[instance], scale, item)
                rows[places[item] * LANES + lane] = max(value, 0.0)
        return
    for lane in range(0, LANES, BLOCK):
        for column in range(0, m - BLOCK + 1, BLOCK):
            load_block(weights, scale, first + lane, column, places, rows, lane)
        if m % BLOCK:  # the last block overlaps the one before
            load_block(weights, scale, first + lane, m - BLOCK, places, rows, lane)
