"""The paper's evaluation (section 5), reproduced and carried further.

The rooms, in the order of a run: `settings` (the grid, and what is refused), `cases` (world,
predictor, problem and rules of a unit), `held_out` (what predictions are worth), `stream` (the grid
on fresh batches), `equal_samples` (the other CHECKs on as many samples), `units` (all of it, as
rows), `folder` (files that survive a kill), `tables`, `reading`, `claims` and `comparisons` (what
the tables say), `panels` and `figures`, `page`; `reproduce` walks through them.
"""

from outrule.plots import require_matplotlib

require_matplotlib()
