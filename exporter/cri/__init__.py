"""Speaks gRPC with the runtime: makes calls and returns plain facts.

gRPC's errors are translated here (`errors`) and do not leave the package.
"""
