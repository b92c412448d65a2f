"""Recordings, judged again and explained."""
