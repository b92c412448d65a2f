"""`shadow-pleg replay`: judges a recording again, and explains its verdicts.

It needs no node and no runtime; the observer, which records, does not need it.
"""
