"""The scikit-learn classes: thin shells around a `Model`."""
