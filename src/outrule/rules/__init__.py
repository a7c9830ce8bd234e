"""What people decide by today: rules, their decisions, and rules written as SQL text."""
