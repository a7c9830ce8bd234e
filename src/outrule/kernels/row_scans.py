"""The passes over a row of costs that assignments are made of, as vector code, and plain twins.

Each pass is one loop over whole vectors that keeps the least numbers and their column in registers.
LLVM does not vectorise this: it does not know the two least numbers as a reduction, nor that the
arrays do not overlap. The twins do the same bit for bit. Rows are padded to a multiple of
LANE_BLOCK elements, and no number is NaN unless said so.
"""

from functools import partial
from typing import Any

import numpy as np
from numba import types

from outrule.kernels.compiling import njit
from outrule.kernels.picking import LARGEST
from outrule.kernels.vectors import LANE_BLOCK, VECTORS, Code, Memory, vector_code
from outrule.types import Floats, Positions


@njit(nogil=True, cache=True)
def plain_negate(weights: Floats, scale: Floats, first: int, n: int, line: Floats) -> float:
    """line[c] = -weight * scale of item first + c, for n items; return the least of these.

    Products are cut at 0 (so is NaN) and at LARGEST.
    """
    least = 0.0
    for c in range(n):
        value = weights[first + c] * scale[first + c]
        value = value if value > 0.0 else 0.0
        line[c] = -(value if value < LARGEST else LARGEST)
        least = min(least, line[c])
    return least


@njit(nogil=True, cache=True)
def plain_lower(line: Floats, price: Floats, least: float) -> None:
    """Subtract a number from a row, and lower the prices to what it has then."""
    for c in range(line.size):
        line[c] -= least
        price[c] = min(price[c], line[c])


@njit(nogil=True, cache=True)
def plain_two_least(line: Floats, price: Floats) -> tuple[float, float, int]:
    """The least and the second least of line - price, and the column of the least.

    Where the two are equal, the column is -1.
    """
    least = second = np.inf
    column = -1
    for c in range(line.size):
        value = line[c] - price[c]
        if value < least:
            column = c
        second = min(second, max(least, value))
        least = min(least, value)
    return least, second, column if least < second else -1


@njit(nogil=True, cache=True)
def plain_relax(
    line: Floats,
    price: Floats,
    distance: Floats,
    previous: Positions,
    lowest: float,
    shift: float,
    row: int,
) -> tuple[float, float, int]:
    """Shorten the distances by the paths through a row; return two_least of all distances.

    Rounding must not bring a distance below `lowest`, the last one that is final.
    """
    least = second = np.inf
    column = -1
    for c in range(line.size):
        through = max(line[c] - price[c] + shift, lowest)
        if through < distance[c]:
            distance[c] = through
            previous[c] = row
        if distance[c] < least:
            column = c
        second = min(second, max(least, distance[c]))
        least = min(least, distance[c])
    return least, second, column if least < second else -1


class _Pass(Code):
    """A loop over the vectors of a row that keeps the two least numbers and where the least is."""

    def __init__(self, context: Any, builder: Any, sig: Any, args: Any, lanes: int):
        super().__init__(context, builder, sig, args, lanes)
        self.as_tuple = partial(context.make_tuple, builder, sig.return_type)
        self.size = self.arguments[0].shape[0]
        infinity = self.ir.Constant(self.vector, [float("inf")] * LANE_BLOCK)
        self.least, self.second = self.variable(infinity), self.variable(infinity)
        self.block = self.variable(self.splat(self.i64(0)))

    def blocks(self) -> Any:
        n_blocks = self.builder.udiv(self.size, self.i64(LANE_BLOCK))
        return self.cgutils.for_range(self.builder, n_blocks)

    def smaller(self, value: Any, other: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", value, other), value, other)

    def keep(self, value: Any, block: Any) -> None:
        """Take a vector of the row into account."""
        builder = self.builder
        least, second, kept = map(builder.load, (self.least, self.second, self.block))
        below = builder.fcmp_ordered("<", value, least)
        builder.store(builder.select(below, self.splat(block), kept), self.block)
        builder.store(self.smaller(second, self.larger(least, value)), self.second)
        builder.store(builder.select(below, value, least), self.least)

    def result(self) -> Any:
        """What is left when the lanes are merged."""
        builder, lanes = self.builder, self.builder.load(self.least)
        least, second = lanes, builder.load(self.second)
        for distance in (4, 2, 1):
            turn = [(k + distance) % LANE_BLOCK for k in range(LANE_BLOCK)]
            other, its_second = (self.shuffle(v, v, turn) for v in (least, second))
            second = self.smaller(self.smaller(second, its_second), self.larger(least, other))
            least = self.smaller(least, other)
        bits = builder.bitcast(
            builder.fcmp_ordered("==", lanes, least), self.ir.IntType(LANE_BLOCK)
        )
        lane = builder.cttz(builder.zext(bits, self.i32), self.ir.IntType(1)(True))
        block = builder.extract_element(builder.load(self.block), lane)
        column = builder.add(self._start(block), builder.zext(lane, self.i64))
        least, second = (builder.extract_element(v, self.i32(0)) for v in (least, second))
        unique = builder.fcmp_ordered("<", least, second)
        column = builder.select(unique, column, self.i64(-1))
        return self.as_tuple([least, second, column])


_TUPLE: Any = types.Tuple
SCAN = _TUPLE((types.float64, types.float64, types.int64))


@vector_code(types.float64, kind=_Pass)
def vector_negate(
    code: _Pass, weights: Memory, scale: Memory, first: Any, n: Any, line: Memory
) -> Any:
    builder = code.builder
    zero, largest = (code.ir.Constant(code.vector, [v] * LANE_BLOCK) for v in (0.0, LARGEST))
    last = builder.sub(n, code.i64(LANE_BLOCK))
    # As many blocks as there are, the last one moved back to end where the row ends.
    n_blocks = builder.udiv(builder.add(n, code.i64(LANE_BLOCK - 1)), code.i64(LANE_BLOCK))
    with code.cgutils.for_range(builder, n_blocks) as loop:
        start = builder.mul(loop.index, code.i64(LANE_BLOCK))
        start = builder.select(builder.icmp_signed("<", start, last), start, last)
        item = builder.add(first, start)
        code.prefetch(weights, builder.add(item, code.size), level=2)  # the next instance, if any
        value = builder.fmul(code.load_from(weights, item), code.load_from(scale, item))
        value = code.smaller(code.larger(value, zero), largest)
        value = builder.fneg(value)
        code.store_at(value, line, start)
        builder.store(code.smaller(value, builder.load(code.least)), code.least)
    least = builder.load(code.least)
    for distance in (4, 2, 1):
        turn = [(k + distance) % LANE_BLOCK for k in range(LANE_BLOCK)]
        least = code.smaller(least, code.shuffle(least, least, turn))
    return builder.extract_element(least, code.i32(0))


@vector_code(types.void, kind=_Pass)
def vector_lower(code: _Pass, line: Memory, price: Memory, least: Any) -> None:
    least = code.splat(least)
    with code.blocks() as loop:
        value = code.builder.fsub(code.load(line, loop.index), least)
        code.store(value, line, loop.index)
        code.store(code.smaller(value, code.load(price, loop.index)), price, loop.index)


@vector_code(SCAN, kind=_Pass)
def vector_two_least(code: _Pass, line: Memory, price: Memory) -> Any:
    with code.blocks() as loop:
        value = code.builder.fsub(code.load(line, loop.index), code.load(price, loop.index))
        code.keep(value, loop.index)
    return code.result()


@vector_code(SCAN, kind=_Pass)
def vector_relax(
    code: _Pass,
    line: Memory,
    price: Memory,
    distance: Memory,
    previous: Memory,
    lowest: Any,
    shift: Any,
    row: Any,
) -> Any:
    builder = code.builder
    lowest, shift = code.splat(lowest), code.splat(shift)
    row = code.splat(builder.trunc(row, code.i32))
    zero = code.ir.Constant(code.vector, [0.0] * LANE_BLOCK)
    with code.blocks() as loop:
        through = builder.fsub(code.load(line, loop.index), code.load(price, loop.index))
        through = code.larger(builder.fadd(through, shift), lowest)
        so_far, before = code.load(distance, loop.index), code.integers(previous, loop.index)
        shorter = builder.fcmp_ordered("<", through, so_far)
        so_far = builder.select(shorter, through, so_far)
        # Plus zero, so that LLVM does not turn this into a masked store, which is slow.
        so_far = builder.fadd(so_far, zero)
        code.store(so_far, distance, loop.index)
        code.store(builder.select(shorter, row, before), previous, loop.index)
        code.keep(so_far, loop.index)
    return code.result()


negate: Any = vector_negate if VECTORS else plain_negate
lower: Any = vector_lower if VECTORS else plain_lower
two_least: Any = vector_two_least if VECTORS else plain_two_least
relax: Any = vector_relax if VECTORS else plain_relax
