"""The basement: compiled loops over flat arrays; they use nothing above them."""
