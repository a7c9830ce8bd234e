"""A twin of the seal of model files and certificates, for tests that change what is in them."""

import hashlib
import json


def reseal(content):
    """The text of a document, given as values or as text, with a digest that matches it."""
    if not isinstance(content, str):
        content = {name: value for name, value in content.items() if name != "digest"}
        content = json.dumps(content)
    text = content.replace("\r\n", "\n").rstrip().removesuffix("}").rstrip()
    body = text.partition(',\n"digest": "sha256:')[0]
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    return f'{body},\n"digest": "sha256:{digest}"\n}}\n'
