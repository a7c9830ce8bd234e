"""Data to try the command line on."""
