"""Alerts and recording rules: made of `values.yaml` by `make generate`.

Here: the rules as data, and what writes them. Not here: anything that runs on a
node; nothing of this is in the image.
"""
