"""Demos and example data for the command line."""
