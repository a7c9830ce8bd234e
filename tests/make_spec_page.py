"""Write the tables of docs/spec.md from the code that reads specs: run it as a script."""

from __future__ import annotations

import re
from pathlib import Path

from outrule.model import spec_file

PAGE = Path(__file__).parents[1] / "docs" / "spec.md"
MEANING = {
    "": {
        "epsilon": "how far below the best rule is acceptable, in the units of the outcome; not "
        "given: as near as the data support",
        "problem": "what can be decided",
        "data": "which column is what",
        "rules": "the rules, one `[[rules]]` each",
        "multipliers": "a family of rules that scale items",
        "fit": "how the loop runs",
        "value": "what the report calls things",
    },
    "data": {
        "instance": "column of the instance that a row belongs to",
        "prediction": "column of the model's score",
        "outcome": "column of what happened; no rule sees it",
        "item": "column of what the item is, across instances",
        "start": "column of another calibrator's output, to start from",
        "weight": "column of how much an instance counts",
        "cluster": "column of what makes instances one observation: a day, a household",
        "propensity": "the probability with which this outcome is observed, where only some are",
        "observed": "column that says whether the outcome is known; must agree with the nulls",
        "propensity_estimated": "true if propensities were estimated, and not known by design",
        "value_range": "the smallest and the largest value of predictions and outcomes",
    },
    "rules": {
        "name": "what messages and the report call it; distinct",
        "weight": "an expression: new weights for the optimiser",
        "choose": "an expression that is true for the chosen items: the decision itself",
        "always": "this item, where it is on offer",
    },
    "multipliers": {
        "levels": "factors that an item can be multiplied by",
        "limit": "at most this many rules; if there are more, a random sample of them",
        "seed": "seed of that sample",
    },
    "fit": {
        "check": "which data each round looks at",
        "alert": "flag a violation above this share of the tolerance, up to 1 (default: 1 for "
        "reuse, 0.75 for the others)",
        "validation": "share of the instances that is set aside to stop the loop, such as 0.2; not "
        "given: none",
        "patience": "rounds without improvement of that part before it stops (default: 20)",
        "privacy": "a privacy budget of your own: less noise, no guarantee; not given: the noise "
        "that the guarantee needs",
        "delta": "probability with which the guarantee may fail (default: 0.05)",
        "size": "instances in one batch; required for fresh batches",
        "step": "how far a patch moves",
        "start": "what the loop starts from; not given: cross fit, or the start column",
        "max_rounds": "stop after this many rounds",
        "random_state": "seed; not given: 0",
        "rivals": "what the fit must not fall below, besides the rules; not given: both; "
        "`[]` for none. Certificates compare with both anyway",
        "segments": "columns inside whose values it must hold as well; a list of columns crosses "
        "them: [segments](segments.md)",
        "min_share": "smallest share of all weight that a segment may have; smaller ones are "
        "pooled (default: 0.02)",
        "min_instances": "fewest instances that a segment may have; smaller ones are pooled "
        "(default: 200)",
    },
    "value": {
        "name": "what the value is called: completed trips",
        "unit": "its unit: euro",
        "observation": "what one independent observation is called; not given: the cluster column",
    },
    "problem": {
        "cost": "what rejecting costs, in the units of the outcome",
        "reject": "the item that stands for it",
        "k": "how many items at most",
        "groups": "column of the group of an item",
        "capacity": "how many items of a group at most",
        "nodes": "the two columns of an edge's ends",
        "rows": "column of one side, such as the rider",
        "columns": "column of the other side, such as the driver",
    },
}
SECTIONS = {
    "": spec_file._SpecFile,
    "data": spec_file._DataSection,
    "rules": spec_file._RuleSection,
    "multipliers": spec_file._MultipliersSection,
    "fit": spec_file._FitSection,
    "value": spec_file._ValueSection,
}
CHOICES = {
    "best action": "exactly one item",
    "classification": "exactly one class; predictions are probabilities that sum to one",
    "rejection": "one of the classes, or none at a cost",
    "top k": "up to k items",
    "partition": "up to a given number of items from every group",
    "matching": "pairs in a graph, no node twice; exact",
    "greedy matching": "the same for huge graphs; at least half of the optimum",
    "graphic": "edges of a graph that form no cycle",
    "assignment": "pairs of two sides, nobody twice",
}
SAMPLES = {
    "best action": "",
    "classification": "",
    "rejection": 'cost = 0.3\nreject = "nobody"',
    "top k": "k = 3",
    "partition": 'groups = "team"\ncapacity = {red = 2, blue = 1}',
    "matching": 'nodes = ["one", "other"]',
    "greedy matching": 'nodes = ["one", "other"]',
    "graphic": 'nodes = ["one", "other"]',
    "assignment": 'rows = "rider"\ncolumns = "driver"',
}

VALUES = {
    "reuse": "the same data every round; the proof is the certificate",
    "private reuse": "the same data, seen through noise: a guarantee with very many instances",
    "fresh batches": "a new batch every round: the paper's guarantee, if batches are large enough",
    "line search": "as far as lowers the squared error most",
    "fixed": "the paper's step, tolerance / (2 k)",
    "none": "the predictions themselves",
    "isotonic": "their isotonic regression, cross-fitted",
    "cross fit": "trees and curves on what rules and the optimiser choose, cross-fitted",
    "curves": "the same without trees: faster, and mostly not as good",
    "plain rival": "the optimiser on the original predictions",
    "isotonic rival": "the optimiser on their isotonic regression",
}


def sample(kind: str) -> str:
    """The section of a problem."""
    return f'[problem]\nkind = "{kind}"\n{SAMPLES[kind]}'.rstrip()


def keys(name: str) -> str:
    """One line for every key of a section."""
    rows = ["| key | required | must be | what it is |", "|---|---|---|---|"]
    for key, entry in SECTIONS[name].model_fields.items():
        must, required = entry.description or "a section", "yes" if entry.is_required() else ""
        default = entry.default if entry.default_factory is None else entry.default_factory()
        shown = "" if required or default in (None, [], {}) else f" (default: `{_toml(default)}`)"
        rows.append(f"| `{key}` | {required} | {must} | {MEANING[name][key]}{shown} |")
    return "\n".join(rows)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def problems() -> str:
    """Every kind with its keys, and an example."""
    rows = ["| kind | chooses | keys |", "|---|---|---|"]
    for kind, (section, _) in spec_file.PROBLEMS.items():
        told = [
            f"`{key}`: {entry.description}, {MEANING['problem'][key]}"
            for key, entry in section.model_fields.items()
        ]
        rows.append(f"| `{kind}` | {CHOICES[kind]} | {'; '.join(told) or '-'} |")
    blocks = [f"```toml\n{sample(kind)}\n```" for kind in spec_file.PROBLEMS if SAMPLES[kind]]
    return "\n".join(rows) + "\n\n" + "\n\n".join(blocks)


def checks() -> str:
    """What the words of [fit] stand for, and which keys belong to which check."""
    rows = ["| key | value | what it does | in Python | its own keys |", "|---|---|---|---|---|"]
    for word, (make, own) in spec_file.CHECKS.items():
        listed = ", ".join(f"`{key}`" for key in own)
        rows.append(f'| `check` | `"{word}"` | {VALUES[word]} | `{make.__name__}` | {listed} |')
    for word, step in spec_file.STEPS.items():
        rows.append(f'| `step` | `"{word}"` | {VALUES[word]} | `{step.__name__}` | - |')
    for word, start in spec_file.STARTS.items():
        name = "None" if start is None else type(start).__name__
        rows.append(f'| `start` | `"{word}"` | {VALUES[word]} | `{name}` | - |')
    for word in spec_file.RIVALS:
        rows.append(f'| `rivals` | `"{word}"` | {VALUES[f"{word} rival"]} | `"{word}"` | - |')
    return "\n".join(rows)


def filled(page: str) -> str:
    """The page with its tables made again."""
    made = {"problems": problems, "values of [fit]": checks}

    def table(found: re.Match[str]) -> str:
        name = found[1]
        text = made[name]() if name in made else keys(name.removeprefix("keys").strip(" []"))
        return f"<!-- made: {name} -->\n{text}\n<!-- end -->"

    return re.sub(r"<!-- made: (.*?) -->\n.*?<!-- end -->", table, page, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
