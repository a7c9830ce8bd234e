"""The paper's evaluation (section 5), with more problems and comparisons: `outrule reproduce`.

`reproduce` is the entry point. It runs the `units` of the `grid`: each draws its data (`cases`) and
finds patches on fresh batches (`stream`, `batches`). The `results` are three tables. `claims` puts
them into words: `paper_claims`, with `paper_examples` and `convergence`; `comparisons` and
`monotone` for what the paper does not have; all with `reading` and `say`. `figures` puts them into
`panels`, and `page` shows all of it.
"""
