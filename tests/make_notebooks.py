"""Run the notebooks of the docs, and write what their cells show: python tests/make_notebooks.py.

Each notebook of docs/notebooks also becomes a page of the site, with the same name.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

Cells = list[dict[str, Any]]


def run(source: str, names: dict[str, Any]) -> tuple[str, bytes | None]:
    """What a cell prints, with its last expression, and the picture that it draws."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        shown = last and eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        if shown is not None and not hasattr(shown, "get_figure"):
            print(repr(shown))
    return printed.getvalue(), picture_of(shown)


def picture_of(shown: object) -> bytes | None:
    """The picture that a cell ends with, if these are axes."""
    if not hasattr(shown, "get_figure"):
        return None
    from matplotlib import pyplot

    buffer = io.BytesIO()
    shown.get_figure().savefig(buffer, format="png", dpi=80, metadata={"Software": None})
    pyplot.close("all")
    return buffer.getvalue()


def outputs_of(text: str, picture: bytes | None) -> list[dict[str, Any]]:
    """In the format of a notebook."""
    found: list[dict[str, Any]] = []
    if text:
        lines = text.splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": lines})
    if picture:
        data = {"image/png": base64.b64encode(picture).decode()}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return found


def text_in(cell: dict[str, Any]) -> str:
    return "".join(line for shown in cell["outputs"] for line in shown.get("text", ()))


def executed(path: Path) -> dict[str, Any]:
    """A notebook with the outputs of its cells, run in their order."""
    import matplotlib

    matplotlib.use("agg")
    book = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cell for cell in book["cells"] if cell["cell_type"] == "code"):
        cell["execution_count"] = number + 1
        cell["outputs"] = outputs_of(*run("".join(cell["source"]), names))
    return book


def page_of(name: str, cells: Cells) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by the names of their files."""
    parts, pictures = [], {}
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        if text := text_in(cell).rstrip():
            kind = "text" if "│" in text else "output"  # lines of an output wrap on the site
            parts.append(f"```{kind}\n{text}\n```")
        for shown in cell["outputs"]:
            if "data" in shown:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(shown["data"]["image/png"])
                parts.append(f"![What this cell draws]({file})")
    head = f"<!-- made from {name}.ipynb by tests/make_notebooks.py -->\n"
    return head + "\n\n".join(parts) + f"\n\n[The notebook]({name}.ipynb)\n", pictures


if __name__ == "__main__":
    for path in NOTEBOOKS:
        book = executed(path)
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        page, pictures = page_of(path.stem, book["cells"])
        path.with_suffix(".md").write_text(page, encoding="utf-8")
        for name, content in pictures.items():
            (FOLDER / name).write_bytes(content)
