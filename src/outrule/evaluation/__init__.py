"""The paper's evaluation (section 5), with more problems and comparisons: `outrule reproduce`.

`reproduce` is the entry point. It runs the `units` of the `grid`: each draws its data (`cases`) and
finds patches on fresh batches (`stream`). The `results` are three tables. `claims` and
`comparisons` put them into words (with `reading` and `say`), `figures` into `panels`, and `page`
shows all of it.
"""
