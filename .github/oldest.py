"""Print the oldest version of every dependency that pyproject.toml allows, as constraints."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
LOWER = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)")

if __name__ == "__main__":
    for requirement in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]:
        if found := LOWER.match(requirement):
            # The newest patch release of the oldest series: wheels of the first may be broken.
            name, version = found.groups()
            print(f"{name}=={version}.*" if version.count(".") < 2 else f"{name}=={version}")
