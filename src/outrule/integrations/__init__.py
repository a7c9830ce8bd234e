"""Calibrators in other people's systems; each needs an extra."""
