"""The paper's evaluation (section 5), with more problems and comparisons: `outrule reproduce`.

`reproduce` is the entry point. It runs `units` of the `grid`: each draws its data (`cases`), finds
patches on fresh batches (`stream`), and measures them on `held_out` instances; a `folder` keeps
what is done. The `results` are three tables; `claims` and `comparisons` put them into words (with
`reading`), `figures` into `panels`, and `page` shows all of it.
"""
