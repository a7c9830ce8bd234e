"""The page around the sections: one HTML file that loads nothing."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from importlib.resources import files
from string import Template
from typing import Any

from outrule.reporting.markup import text

# Characters that could end a script element, or a line of old JavaScript, are escaped.
ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def whole_page(
    title: str,
    kind: str,
    library: str,
    links: Mapping[str, str],
    sections: Iterable[str],
    data: Mapping[str, Any],
) -> str:
    """Sections with their style, script and numbers; ``links`` are the titles of their ids."""
    numbers = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    script = _part("page.js")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(_part("page.html")).substitute(
        title=text(f"{title} · outrule {kind}"),
        kind=kind,
        library=text(library),
        style=_part("page.css"),
        hash=f"'sha256-{digest}'",
        links="\n".join(f'<a href="#{name}">{link}</a>' for name, link in links.items()),
        body="\n".join(sections),
        data=numbers.translate(ESCAPES),
        script=script,
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
