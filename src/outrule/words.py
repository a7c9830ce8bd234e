"""Wording that messages, terminal output and the report share."""


def count(number: int, one: str, more: str = "") -> str:
    """A number with its noun: 1 round, 2 rounds, no rounds."""
    return f"{f'{number:,}' if number else 'no'} {one if number == 1 else more or one + 's'}"
