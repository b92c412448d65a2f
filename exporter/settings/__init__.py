"""What an operator sets: flags, environment, files, and how their text is read."""
