"""The rules, one small entry each, in the order in which they are written.

Here: nothing but data. Not here: how entries become files (`alerts.render`).
"""
