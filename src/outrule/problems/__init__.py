"""What can be decided: which sets of items are feasible, and the optimiser over them."""
