"""The inner loops of the subset programmes as vector code, and plain twins of them.

LLVM vectorises a loop over lanes only if it can prove that the rows of one buffer do not overlap,
and it cannot; its checks at run time cost as much as these short loops. The twins, which do the
same bit for bit, take over where the vector code does not compile.
"""

import os
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NamedTuple, cast

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.kernels.picking import LARGEST, scaled
from outrule.types import Floats, Integers, Positions

LANES = 16  # instances side by side in the rows of a buffer
LANE_BLOCK = 8  # instances that load_block loads and store_best_cube solves together
# Elements of a set of which all subsets are computed together: 2**CUBE vectors in registers.
CUBE = 3
# Enough for the sum of the largest floats of any matching to stay finite.
SHRINK = 2.0**-8


@njit(nogil=True, cache=True)
def plain_load_block(
    weights: Floats, scale: Floats, first: int, column: int, lane: int, rows: Floats
) -> None:
    """Load as many columns as instances, LANE_BLOCK, scaled and cut at 0 and LARGEST.

    Column c lands in row c. Instances past the end repeat the last one.
    """
    for k in range(LANE_BLOCK):
        items = weights[min(first + k, len(weights) - 1)]
        for c in range(column, column + LANE_BLOCK):
            value = items[c] * scale[c]
            value = value if value > 0.0 else 0.0
            rows[c * LANES + lane + k] = value if value < LARGEST else LARGEST


@njit(nogil=True, cache=True)
def plain_best_sum(
    rows: Floats,
    choices: NDArray[np.int8],
    left: Positions,
    right: Positions,
    begin: int,
    end: int,
    target: int,
) -> None:
    """rows[target] = max of rows[left[t]] + rows[right[t]] over begin <= t < end; sums are >= 0.

    choices[target] = t - begin of the first t that attains the maximum. Rows have LANES lanes.
    """
    for lane in range(LANES):
        best, choice = -1.0, 0
        for t in range(begin, end):
            total = rows[left[t] * LANES + lane] + rows[right[t] * LANES + lane]
            if total > best:
                best, choice = total, t - begin
        rows[target * LANES + lane] = best
        choices[target * LANES + lane] = choice


@njit(nogil=True, cache=True)
def plain_best_cube(
    best: Floats,
    profit: Floats,
    cells: Positions,
    lane: int,
    start: int,
    target: int,
    high: int,
    cell: int,
    large: int,
) -> None:
    """best[target + low] = max of best[start + low] and of best[target + low - e] + gain of e.

    For all low < 2**CUBE; e runs over the bits of low and, CUBE bits higher, of `high`. The gain of
    bit number b is in row cells[b * large + cell + r] of profit, where r is the number of bits in
    low, minus one. Rows of best have LANE_BLOCK lanes; those of profit LANES, from `lane` on.
    """
    for low in range(1 << CUBE):
        size, bits = (low & 1) + (low >> 1 & 1) + (low >> 2), (high << CUBE) + low
        for k in range(LANE_BLOCK):
            value, number = best[(start + low) * LANE_BLOCK + k], 0
            while bits >> number:
                if bits >> number & 1:
                    before = best[(target + low - (1 << number)) * LANE_BLOCK + k]
                    row = np.int64(cells[number * large + cell + size - 1])
                    value = max(value, before + profit[row * LANES + lane + k])
                number += 1
            best[(target + low) * LANE_BLOCK + k] = value


@njit(nogil=True, cache=True)
def plain_trace(
    best: Floats, profit: Floats, cells: Positions, choices: Integers, lane: int
) -> None:
    """Go back from the last state, through the outer vertices (rows of choices) from the last on.

    In LANE_BLOCK lanes, outer vertex t takes the lowest bit b of the state such that
    best[state - 2**b] plus row cells[b, t] of profit equals best[state], or b = len(cells) if there
    is none. Either way the state loses 2**b.
    """
    small, large = cells.shape
    for k in range(LANE_BLOCK):
        state = ((large - small + 1) << small) - 1
        for t in range(large - 1, -1, -1):
            value, choice = best[state * LANE_BLOCK + k], 0
            while choice < small:
                before = state & ~(1 << choice)
                gain = profit[np.int64(cells[choice, t]) * LANES + lane + k]
                if before != state and best[before * LANE_BLOCK + k] + gain == value:
                    break
                choice += 1
            choices[t, lane + k] = choice
            state -= 1 << choice


class Memory(NamedTuple):
    """An array that vector code is given."""

    data: Any
    item: Any  # type of its elements
    shape: Sequence[Any]


class Code:
    """What both loops do with the arrays they are given, as instructions."""

    def __init__(self, context: Any, builder: Any, sig: Any, args: Any, lanes: int):
        from llvmlite import ir  # type: ignore[import-untyped]  # comes with Numba
        from numba.core import cgutils

        self.ir, self.cgutils, self.builder, self.lanes = ir, cast(Any, cgutils), builder, lanes
        self.i32, self.i64 = ir.IntType(32), ir.IntType(64)
        self.vector = ir.VectorType(ir.DoubleType(), lanes)
        self.arguments = list(args)
        for number, kind in enumerate(sig.args):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, args[number])
                shape = self.cgutils.unpack_tuple(builder, array.shape, kind.ndim)
                item = context.get_data_type(kind.dtype)
                self.arguments[number] = Memory(array.data, item, shape)

    def _place(self, array: Memory, index: Any, kind: Any) -> Any:
        place = self.builder.gep(array.data, [index], source_etype=array.item)
        return self.builder.bitcast(place, kind.as_pointer())

    def _start(self, row: Any) -> Any:
        return self.builder.mul(row, self.i64(self.lanes))

    def number(self, array: Memory, index: Any) -> Any:
        """One element of an array, a whole number as int64."""
        value = self.builder.load(self._place(array, index, array.item), typ=array.item)
        return self.builder.sext(value, self.i64) if array.item == self.i32 else value

    def load(self, array: Memory, row: Any) -> Any:
        """A row of an array of numbers."""
        return self.load_from(array, self._start(row))

    def load_from(self, array: Memory, index: Any) -> Any:
        """The numbers from an index on, as many as there are lanes."""
        place = self._place(array, index, self.vector)
        return self.builder.load(place, align=8, typ=self.vector)

    def integers(self, array: Memory, row: Any) -> Any:
        """A row of an array of int32."""
        kind = self.ir.VectorType(self.i32, self.lanes)
        place = self._place(array, self._start(row), kind)
        return self.builder.load(place, align=4, typ=kind)

    def prefetch(self, array: Memory, index: Any, level: int = 1) -> None:
        """Ask for a cache line that will be read next, which need not lie inside the array.

        It goes to this level of the cache: not to the first, if more will come than it holds.
        """
        place = self._place(array, index, self.ir.IntType(8))
        kind = self.ir.FunctionType(self.ir.VoidType(), [place.type, *[self.i32] * 3])
        call = self.builder.module.declare_intrinsic("llvm.prefetch", (place.type,), kind)
        read, data = self.i32(0), self.i32(1)
        self.builder.call(call, [place, read, self.i32(4 - level), data])

    def store(self, value: Any, array: Memory, row: Any) -> None:
        self.store_at(value, array, self._start(row))

    def store_at(self, value: Any, array: Memory, index: Any) -> None:
        self.builder.store(value, self._place(array, index, value.type), align=1)

    def shuffle(self, value: Any, other: Any, mask: list[int]) -> Any:
        places = self.ir.Constant(self.ir.VectorType(self.i32, self.lanes), mask)
        return self.builder.shuffle_vector(value, other, places)

    def variable(self, value: Any) -> Any:
        return self.cgutils.alloca_once_value(self.builder, value)

    def larger(self, value: Any, other: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered(">", value, other), value, other)

    def splat(self, value: Any) -> Any:
        """The vector that holds a number in every lane."""
        empty = self.ir.Constant(self.ir.VectorType(value.type, self.lanes), self.ir.Undefined)
        first = self.builder.insert_element(empty, value, self.i32(0))
        return self.shuffle(first, empty, [0] * self.lanes)


def vector_code(
    returns: Any, lanes: int = LANE_BLOCK, kind: type[Code] = Code
) -> Callable[[Callable[..., Any]], Any]:
    """Turn a function that writes instructions for so many lanes into one for kernels.

    It is given the Code and its arguments: values, and the Memory of arrays.
    """

    def made(write: Callable[..., Any]) -> Any:
        def typed(_: Any, *types_: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                code = kind(context, builder, sig, args, lanes)
                result = write(code, *code.arguments)
                return context.get_dummy_value() if result is None else result

            return returns(*types_), codegen

        typed.__signature__ = signature(write)  # type: ignore[attr-defined] # Numba reads it
        return intrinsic(typed)

    return made


@vector_code(types.void)
def vector_load_block(
    code: Code, weights: Memory, scale: Memory, first: Any, column: Any, lane: Any, rows: Memory
) -> None:
    builder = code.builder
    n, m = weights.shape
    last, factor = builder.sub(n, code.i64(1)), code.load_from(scale, column)
    zero, largest = (code.ir.Constant(code.vector, [v] * LANE_BLOCK) for v in (0.0, LARGEST))
    block = []
    for k in range(LANE_BLOCK):
        instance = builder.add(first, code.i64(k))
        instance = builder.select(builder.icmp_signed("<", instance, last), instance, last)
        start = builder.add(builder.mul(instance, m), column)
        code.prefetch(weights, builder.add(start, builder.mul(m, code.i64(LANES))))
        values = code.load_from(weights, start)
        values = code.larger(builder.fmul(values, factor), zero)
        finite = builder.fcmp_ordered("<", values, largest)
        block.append(builder.select(finite, values, largest))
    # Transpose: swap the off-diagonal halves at distance 1, 2 and 4.
    for distance in (1, 2, 4):
        upper = [k if not k & distance else LANE_BLOCK + k - distance for k in range(LANE_BLOCK)]
        lower = [k + distance if not k & distance else LANE_BLOCK + k for k in range(LANE_BLOCK)]
        for i in range(LANE_BLOCK):
            if not i & distance:
                a, b = block[i], block[i + distance]
                block[i] = code.shuffle(a, b, upper)
                block[i + distance] = code.shuffle(a, b, lower)
    for k, values in enumerate(block):
        row = builder.mul(builder.add(column, code.i64(k)), code.i64(LANES))
        code.store_at(values, rows, builder.add(row, lane))


@vector_code(types.void, LANES)
def vector_best_sum(
    code: Code,
    rows: Memory,
    choices: Memory,
    left: Memory,
    right: Memory,
    begin: Any,
    end: Any,
    target: Any,
) -> None:
    builder, wide = code.builder, code.ir.VectorType(code.i64, LANES)
    best = code.variable(code.ir.Constant(code.vector, [-1.0] * LANES))
    choice = code.variable(code.ir.Constant(wide, [0] * LANES))
    with code.cgutils.for_range_slice(builder, begin, end, code.i64(1)) as (step, _):
        first, second = (code.load(rows, code.number(k, step)) for k in (left, right))
        total = builder.fadd(first, second)
        so_far, chosen = builder.load(best), builder.load(choice)
        larger = builder.fcmp_ordered(">", total, so_far)
        builder.store(builder.select(larger, total, so_far), best)
        number = code.splat(builder.sub(step, begin))
        builder.store(builder.select(larger, number, chosen), choice)
    code.store(builder.load(best), rows, target)
    narrow = code.ir.VectorType(code.ir.IntType(8), LANES)
    code.store(builder.trunc(builder.load(choice), narrow), choices, target)


@vector_code(types.void)
def vector_best_cube(
    code: Code,
    best: Memory,
    profit: Memory,
    cells: Memory,
    lane: Any,
    start: Any,
    target: Any,
    high: Any,
    cell: Any,
    large: Any,
) -> None:
    builder = code.builder

    def gain(number: Any, size: int) -> Any:
        place = builder.add(builder.mul(number, large), cell)
        row = code.number(cells, builder.add(place, code.i64(size - 1)))
        return code.load_from(profit, builder.add(builder.mul(row, code.i64(LANES)), lane))

    def plus(state: Any, low: int) -> Any:
        return builder.add(state, code.i64(low))

    values = [code.variable(code.load(best, plus(start, low))) for low in range(1 << CUBE)]
    rest = code.variable(high)
    # Highest bit first: the lowest bit needs the cube that has only just been stored.
    with code.cgutils.for_range(builder, builder.ctpop(high)):
        bits = builder.load(rest)
        number = builder.sub(code.i64(63), builder.ctlz(bits, code.ir.IntType(1)(True)))
        bit = builder.shl(code.i64(1), number)
        builder.store(builder.xor(bits, bit), rest)
        source = builder.sub(target, builder.shl(bit, code.i64(CUBE)))
        gains = [gain(plus(number, CUBE), size) for size in range(CUBE + 1)]
        for low, value in enumerate(values):
            total = builder.fadd(code.load(best, plus(source, low)), gains[low.bit_count()])
            builder.store(code.larger(total, builder.load(value)), value)
    final = [builder.load(value) for value in values]
    for low in range(1 << CUBE):
        for number in range(CUBE):
            if low >> number & 1:
                before = final[low ^ (1 << number)]
                total = builder.fadd(before, gain(code.i64(number), low.bit_count()))
                final[low] = code.larger(total, final[low])
        code.store(final[low], best, plus(target, low))


@vector_code(types.void)
def vector_trace(
    code: Code, best: Memory, profit: Memory, cells: Memory, choices: Memory, lane: Any
) -> None:
    # There is no hardware gather: its LLVM intrinsic differs between the versions Numba may use.
    builder, (small, large) = code.builder, cells.shape
    wide, one = code.ir.VectorType(code.i64, LANE_BLOCK), code.i64(1)
    n_subsets = builder.add(builder.sub(large, small), one)
    last = builder.sub(builder.shl(n_subsets, small), one)
    states = code.variable(code.splat(last))
    value = code.variable(code.load(best, last))
    choice = code.variable(code.splat(small))

    def descending(count: Any) -> Any:
        top, end = builder.sub(count, one), code.i64(-1)
        return code.cgutils.for_range_slice(builder, top, end, code.i64(-1), inc=False)

    with descending(large) as (t, _):
        state, target = builder.load(states), builder.load(value)
        starts = [
            builder.mul(builder.extract_element(state, code.i32(k)), code.i64(LANE_BLOCK))
            for k in range(LANE_BLOCK)
        ]
        builder.store(code.splat(small), choice)
        with descending(small) as (number, _):  # so the lowest bit has the last word
            bit = builder.shl(one, number)
            others = builder.not_(builder.mul(bit, code.i64(LANE_BLOCK)))
            before = code.ir.Constant(code.vector, code.ir.Undefined)
            for k, start in enumerate(starts):
                place = builder.add(builder.and_(start, others), code.i64(k))
                before = builder.insert_element(before, code.number(best, place), code.i32(k))
            row = code.number(cells, builder.add(builder.mul(number, large), t))
            gain = code.load_from(profit, builder.add(builder.mul(row, code.i64(LANES)), lane))
            held = builder.and_(state, code.splat(bit))
            held = builder.icmp_signed("!=", held, code.ir.Constant(wide, [0] * LANE_BLOCK))
            equal = builder.fcmp_ordered("==", builder.fadd(before, gain), target)
            hit = builder.and_(held, equal)
            found = builder.select(hit, code.splat(number), builder.load(choice))
            builder.store(found, choice)
            builder.store(builder.select(hit, before, builder.load(value)), value)
        found = builder.load(choice)
        lost = builder.shl(code.ir.Constant(wide, [1] * LANE_BLOCK), found)
        builder.store(builder.sub(state, lost), states)
        code.store_at(found, choices, builder.add(builder.mul(t, code.i64(LANES)), lane))


@njit(nogil=True, cache=True)
def _probe(rows: Floats, choices: NDArray[np.int8], numbers: Positions, k: int) -> None:
    vector_load_block(rows.reshape(1, -1), rows, k, k, k, rows)
    vector_best_sum(rows, choices, numbers, numbers, k, k, k)
    vector_best_cube(rows, rows, numbers, k, k, k, k, k, k)
    vector_trace(rows, rows, numbers.reshape(1, -1), np.zeros((k, k), np.int64), k)


def compiles() -> bool:
    """Whether the vector code compiles with this version of Numba."""
    kernel: Any = _probe
    try:
        kernel.compile((types.float64[::1], types.int8[::1], types.int32[::1], types.int64))
    except Exception:
        return False
    return True


# Numba checks no index in the vector code, so where it should check all, the twins run.
VECTORS = not os.environ.get("NUMBA_BOUNDSCHECK") and compiles()
load_block: Any = vector_load_block if VECTORS else plain_load_block
store_best_sum: Any = vector_best_sum if VECTORS else plain_best_sum
store_best_cube: Any = vector_best_cube if VECTORS else plain_best_cube
trace_choices: Any = vector_trace if VECTORS else plain_trace


@njit(nogil=True, cache=True)
def empty_rows(n_rows: int, lanes: int) -> Floats:
    """n_rows * lanes zeros that start on a cache line."""
    raw = np.zeros(n_rows * lanes + 8)
    skip = (-(raw.ctypes.data >> 3)) & 7
    return raw[skip : skip + n_rows * lanes]


@njit(nogil=True, cache=True)
def load_lanes(weights: Floats, scale: Floats, first: int, rows: Floats) -> None:
    """Load LANES instances from `first` on, item e into row e; past the end the last one again."""
    n, m = weights.shape
    if m < LANE_BLOCK:
        for lane in range(LANES):
            items = weights[min(first + lane, n - 1)]
            for item in range(m):
                rows[item * LANES + lane] = max(scaled(items, scale, item), 0.0)
        return
    for lane in range(0, LANES, LANE_BLOCK):
        for column in range(0, m - LANE_BLOCK + 1, LANE_BLOCK):
            load_block(weights, scale, first + lane, column, lane, rows)
        if m % LANE_BLOCK:  # the last block overlaps the one before
            load_block(weights, scale, first + lane, m - LANE_BLOCK, lane, rows)


@njit(nogil=True, cache=True)
def shrink_overflows(sums: Floats, rows: Floats, first: int) -> bool:
    """Divide the numbers of every lane, from `first` on, whose sum is infinite; say if any is."""
    any_overflow = False
    for lane in range(sums.size):
        if sums[lane] == np.inf:
            any_overflow = True
            for place in range(first + lane, rows.size, LANES):
                rows[place] *= SHRINK
    return any_overflow
