"""Wording that messages, terminal output and the report share."""


def harmless(text: str, keep: str = "") -> str:
    """Names from the data, with escapes for what could steer a terminal or turn round a line."""
    return "".join(
        letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] for letter in text
    )


def count(number: int, one: str, more: str = "") -> str:
    """A number with its noun: 1 round, 2 rounds, no rounds."""
    return f"{f'{number:,}' if number else 'no'} {one if number == 1 else more or one + 's'}"
