"""The picture: every point is where its axes say."""

import re
from xml.etree import ElementTree as ET

import pytest

from bench.curves import Line, Panel, Point, picture

pytestmark = pytest.mark.quick

SVG = "{http://www.w3.org/2000/svg}"
# Left, right, top and bottom of a panel's axes, from its own corner.
LEFT, RIGHT, TOP, BOTTOM = 58.0, 404.0, 62.0, 246.0


def parsed(*panels: Panel, columns: int) -> ET.Element:
    """The picture of those panels."""
    return ET.fromstring(picture(panels, columns))  # noqa: S314 -- our own


def drawn(*lines: Line) -> list[list[tuple[float, ...]]]:
    """The points of each line of one panel, as they are drawn."""
    root = parsed(Panel("Cost <of> it", "pods", "ms", lines), columns=1)
    return [
        [tuple(map(float, pair.split(","))) for pair in each.attrib["points"].split()]
        for each in root.iter(f"{SVG}polyline")
    ]


def test_axes_are_logarithmic() -> None:
    """Ten times as much is the same step everywhere, to the edges of the axes."""
    ((first, second, third),) = drawn(Line("a", tuple(Point(10**n, (10**n,)) for n in range(3))))
    assert first == (LEFT, BOTTOM)
    assert second == pytest.approx(((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2))
    assert third == (RIGHT, TOP)


@pytest.mark.parametrize("values", [(0.0,), (0.0, 0.0, 5.0), (4.9, 5.0, 5.1), (0.003, 80.0)])
def test_whatever_was_measured_lies_within_the_axes(values: tuple[float, ...]) -> None:
    """Also nothing at all, for which a logarithmic axis has no place, and what hardly varies."""
    line = Line("a", (Point(1, values), Point(4, (5.0,))))
    for x, y in drawn(line)[0]:
        assert LEFT <= x <= RIGHT
        assert TOP <= y <= BOTTOM


def test_panels_lie_beside_and_below_each_other() -> None:
    """None covers another, and the picture is as large as all of them."""
    panel = Panel("Cost", "pods", "ms", (Line("a", (Point(1, (1.0,)),)),))
    root = parsed(*[panel] * 3, columns=2)
    places = [each.attrib["transform"] for each in root.iter(f"{SVG}g")]
    assert [re.findall(r"\d+", each) for each in places] == [["0", "0"], ["420", "0"], ["0", "300"]]
    assert root.attrib["viewBox"] == "0 0 840 600"
