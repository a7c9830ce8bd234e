"""The passes over a row of costs that assignments are made of, as vector code, and plain twins.

Each pass is one loop over whole vectors that stores what it computes and keeps the least of it in
registers. LLVM does not vectorise this: it does not know the two least numbers as a reduction, nor
that the arrays do not overlap. The twins do the same bit for bit. All arrays have a multiple of
LANE_BLOCK elements, and no number is NaN.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.kernels.vectors import LANE_BLOCK, VECTORS, Code

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@njit(nogil=True, cache=True)
def plain_two_least(line: Floats, price: Floats, values: Floats) -> tuple[float, float]:
    """values = line - price; return the least of them and the second least, equal on a tie."""
    least = second = np.inf
    for c in range(line.size):
        values[c] = line[c] - price[c]
        second = min(second, max(least, values[c]))
        least = min(least, values[c])
    return least, second


@njit(nogil=True, cache=True)
def plain_relax(
    line: Floats,
    price: Floats,
    distance: Floats,
    previous: Integers,
    lowest: float,
    shift: float,
    row: int,
) -> float:
    """Shorten the distances by the paths through a row; return the least of all distances.

    Rounding must not bring a distance below `lowest`, the last one that is final.
    """
    least = np.inf
    for c in range(line.size):
        through = max(line[c] - price[c] + shift, lowest)
        if through < distance[c]:
            distance[c] = through
            previous[c] = row
        least = min(least, distance[c])
    return least


@njit(nogil=True, cache=True)
def plain_least_rank(values: Floats, wanted: float, rank: Integers) -> int:
    """Return the least rank of a wanted value."""
    least = np.int64(0x7FFFFFFFFFFFFFFF)
    for c in range(values.size):
        if values[c] == wanted and rank[c] < least:
            least = rank[c]
    return int(least)


class _Pass(Code):
    """A loop over the vectors of some rows, and what remains of its vectors at the end."""

    def __init__(self, context: Any, builder: Any, sig: Any, args: Any):
        super().__init__(context, builder, sig, args, LANE_BLOCK)
        row = context.make_array(sig.args[0])(context, builder, args[0])
        (size,) = self.cgutils.unpack_tuple(builder, row.shape, 1)
        self.n_blocks = builder.udiv(size, self.i64(LANE_BLOCK))
        self.infinity = self.ir.Constant(self.vector, [float("inf")] * LANE_BLOCK)

    def blocks(self) -> Any:
        return self.cgutils.for_range(self.builder, self.n_blocks)

    def smaller(self, value: Any, other: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", value, other), value, other)

    def turned(self, value: Any, distance: int) -> Any:
        """The lanes, moved in a circle."""
        return self.shuffle(value, value, [(k + distance) % self.lanes for k in range(self.lanes)])

    def first(self, value: Any) -> Any:
        return self.builder.extract_element(value, self.i32(0))


def _two_least(_: Any, line: Any, price: Any, values: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        code = _Pass(context, builder, sig, args)
        kept = [code.variable(code.infinity) for _ in range(2)]
        with code.blocks() as loop:
            value = builder.fsub(code.load(0, loop.index), code.load(1, loop.index))
            code.store(value, 2, loop.index)
            least, second = (builder.load(place) for place in kept)
            builder.store(code.smaller(second, code.larger(least, value)), kept[1])
            builder.store(code.smaller(least, value), kept[0])
        least, second = (builder.load(place) for place in kept)
        for distance in (4, 2, 1):
            other, its_second = code.turned(least, distance), code.turned(second, distance)
            second = code.smaller(code.smaller(second, its_second), code.larger(least, other))
            least = code.smaller(least, other)
        both = [code.first(least), code.first(second)]
        return context.make_tuple(builder, sig.return_type, both)

    return types.UniTuple(types.float64, 2)(line, price, values), codegen


def _relax(
    _: Any,
    line: Any,
    price: Any,
    distance: Any,
    previous: Any,
    lowest: Any,
    shift: Any,
    row: Any,
) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        code = _Pass(context, builder, sig, args)
        lowest, shift, row = (code.splat(number) for number in args[4:])
        kept = code.variable(code.infinity)
        with code.blocks() as loop:
            through = builder.fsub(code.load(0, loop.index), code.load(1, loop.index))
            through = code.larger(builder.fadd(through, shift), lowest)
            so_far, before = code.load(2, loop.index), code.integers(3, loop.index)
            shorter = builder.fcmp_ordered("<", through, so_far)
            so_far = builder.select(shorter, through, so_far)
            code.store(so_far, 2, loop.index)
            code.store(builder.select(shorter, row, before), 3, loop.index)
            builder.store(code.smaller(so_far, builder.load(kept)), kept)
        least = builder.load(kept)
        for distance in (4, 2, 1):
            least = code.smaller(least, code.turned(least, distance))
        return code.first(least)

    signature = types.float64(line, price, distance, previous, types.float64, types.float64, row)
    return signature, codegen


def _least_rank(_: Any, values: Any, wanted: Any, rank: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        code = _Pass(context, builder, sig, args)
        wanted, none = code.splat(args[1]), code.splat(code.i64(0x7FFFFFFFFFFFFFFF))
        kept = code.variable(none)

        def lower(value: Any, other: Any) -> Any:
            return builder.select(builder.icmp_signed("<", value, other), value, other)

        with code.blocks() as loop:
            found = builder.fcmp_ordered("==", code.load(0, loop.index), wanted)
            candidate = builder.select(found, code.integers(1, loop.index), none)
            builder.store(lower(candidate, builder.load(kept)), kept)
        least = builder.load(kept)
        for distance in (4, 2, 1):
            least = lower(least, code.turned(least, distance))
        return code.first(least)

    return types.int64(values, types.float64, rank), codegen


vector_two_least: Any = intrinsic(_two_least)
vector_relax: Any = intrinsic(_relax)
vector_least_rank: Any = intrinsic(_least_rank)
two_least: Any = vector_two_least if VECTORS else plain_two_least
relax: Any = vector_relax if VECTORS else plain_relax
least_rank: Any = vector_least_rank if VECTORS else plain_least_rank
