"""Rules as text: SQL expressions, read by our own grammar and evaluated by Polars.

An expression decides every row from that row alone: no aggregate, window, clock, file or code.
Polars' own SQL is not used, because a rule in a model file must decide the same for years: from
1.35 to 2.1 the meaning of ``1 / 2`` changed, decimals lose digits, small integers wrap around, and
a long chain of operators ends the process.
"""

from outrule.rules.sql.evaluation import check_types, column_faults, columns_of, evaluate, values
from outrule.rules.sql.grammar import read

__all__ = ["check_types", "column_faults", "columns_of", "evaluate", "read", "values"]
