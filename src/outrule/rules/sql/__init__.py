"""Rules as text: a SQL expression and instances enter, one flat column leaves.

A rule is evaluated on blocks of instances, so an expression must decide every row by itself, and
nothing from outside the row may enter: no aggregate, no window, no clock, no file, no code.

The text is read by a grammar of our own and evaluated by Polars. Polars' SQL is not used, because a
rule in a model file must decide alike for years: from 1.35 to 2.1 the meaning of ``1 / 2`` changed,
decimals lose digits, small integers wrap around, and a long chain of operators ends the process.
"""

from outrule.rules.sql.evaluation import (
    check_types,
    choice,
    column_faults,
    columns_of,
    evaluate,
    weights,
)
from outrule.rules.sql.grammar import read

__all__ = ["check_types", "choice", "column_faults", "columns_of", "evaluate", "read", "weights"]
