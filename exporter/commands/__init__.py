"""The commands besides `serve`."""
