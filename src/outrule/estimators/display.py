"""How the estimators look in a notebook and in a terminal."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from sklearn import get_config

from outrule.words import as_html

if TYPE_CHECKING:
    from outrule.model.model import Model

FEW = 3  # rules that are shown one by one
LONG = 300  # characters after which a parameter is cut


class Shown:
    """Adds what was found to scikit-learn's HTML, and keeps 1,000 rules short."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = inspect.signature(type(self).__init__).parameters
        everything = not get_config()["print_changed_only"]
        words = [
            f"{name}={_brief(name, getattr(self, name))}"
            for name, parameter in parameters.items()
            if name != "self" and (everything or getattr(self, name) is not parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(words)})"

    def _repr_html_inner(self) -> str:
        html: str = super()._repr_html_inner()  # type: ignore[misc]
        return html + self._found()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._found()
        return bundle

    def _found(self) -> str:
        fitted = getattr(self, "calibrator_", self)
        model: Model | None = getattr(fitted, "model_", None)
        return "" if model is None else table(model)


def _brief(name: str, value: Any) -> str:
    if name == "rules" and isinstance(value, list | tuple) and len(value) > FEW:
        names = [repr(getattr(rule, "name", rule)) for rule in value[:FEW]]
        return f"<{len(value)} rules: {', '.join(_cut(name) for name in names)}, ...>"
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 3]}..."


def table(model: Model) -> str:
    """What was found, as rows of HTML."""
    values, best = model.rule_values, _cut(model.rules[model.best_rule].name)
    rows = {
        "status": model.status.value,
        "patches": f"{len(model.patches)} in {len(model.history)} rounds",
        "training": model.reached,
        "best rule": f"{best}, worth {values.max():.4g} in training",
        "rules": f"{len(values)}, worth {values.min():.4g} to {values.max():.4g}",
    }
    lines = (
        f"<tr><th>{as_html(name)}</th><td>{as_html(text)}</td></tr>" for name, text in rows.items()
    )
    return f'<table class="outrule">{"".join(lines)}</table>'
