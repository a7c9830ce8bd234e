"""What is wrong with a table, or worth knowing, before anything is fitted on it."""
