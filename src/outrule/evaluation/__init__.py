"""The paper's evaluation (section 5), with more problems and comparisons: `outrule reproduce`.

`reproduce` is the entry point. It runs the `units` of the `grid`: each draws its data (`cases`) and
finds patches on fresh batches (`stream`, `batches`). The `results` are three tables. `claims` puts
them into words (`paper_claims`; `comparisons` and `monotone` for what the paper does not have; with
`reading` and `say`), `figures` into `panels`, and `page` shows all of it.
"""
