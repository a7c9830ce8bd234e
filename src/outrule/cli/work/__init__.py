"""What the commands do. It is imported when a command runs, because its imports take seconds."""
