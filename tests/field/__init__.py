"""Public bug reports, run: one case each, with its link and the right answer.

The docstring of a case begins with the link, and says what happened there. What was found is mended
as a kind, not as a case: each of these is one input of many.
"""
