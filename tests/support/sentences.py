"""A test's name is a sentence that stands alone: what fails is said first, in words.

Blind spot: whether the sentence is true, and good English, is for a reader.
"""

import re
from typing import Final

_LEAST_WORDS: Final = 3
# They refer to something that is not in the sentence.
_DANGLING: Final = re.compile(
    r"(it|its|they|them|their|this|that|these|those|he|she|none|and|but|or|so|then|also|too|either"
    r"|neither|nor|even|otherwise|both (are|is|come|have)|one (that|whose|which))\b"
)
# A form of a verb, or what may be one: without any, it is a title.
_VERB: Final = re.compile(
    r" (are|can|come|control|do|have|is|lead|let|lose|may|must|prove|reach|say|share|speak"
    r"|\w+(s|ed))\b"
)


def sentence(name: str) -> str:
    """The name of a test in words; what it is about, if it is one of several, in brackets."""
    words, bracket, which = name.partition("[")
    said = words.removeprefix("test_").replace("_", " ")
    return f"{said[:1].upper()}{said[1:]}" + (f" [{which}" if bracket else "")


def flaw(name: str) -> str:
    """Why the name is no sentence that stands alone; nothing if it is one."""
    words = sentence(name).lower()
    if found := _DANGLING.match(words):
        return f"begins with {found[0]!r}: name what that is"
    if len(words.split()) < _LEAST_WORDS or not _VERB.search(words):
        return "says what it is about, but not what that does"
    return ""
