"""The web server: its pages, who may see them, and how little a flood can do."""
