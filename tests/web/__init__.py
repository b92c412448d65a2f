"""Access control on the HTTP face: who comes in, and how little a flood can do."""
