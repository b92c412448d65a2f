"""Tests of `bench`: what it says of what it measured."""
