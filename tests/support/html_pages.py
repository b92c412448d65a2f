"""An HTML page, parsed: its elements and its colours."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}


@dataclass(slots=True)
class Element:
    """A tag with its attributes and the tags and text below it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    below: list[Element] = field(default_factory=list)


class Page(HTMLParser):
    """All elements in order; a tag that is not closed raises."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, [each.tag for each in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin."""
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        for each in self._open:
            each.below.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin and end at once."""
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """End."""
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        for each in self._open:
            each.text += data

    def all(self, tag: str) -> list[Element]:
        """Those with that tag."""
        return [each for each in self.elements if each.tag == tag]


def colours(css: str) -> list[dict[str, str]]:
    """The custom properties of both schemes, light and dark."""
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    found = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", light))
    return [found, found | dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", dark))]


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
