"""The paper's algorithm: audit the predictions, CHECK, patch, and repeat."""
