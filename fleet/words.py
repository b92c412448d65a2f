"""Numbers in words."""

import math


def in_nodes(number: int) -> str:
    """A number of nodes in words."""
    return "1 node" if number == 1 else f"{number:,} nodes"


def distinct_percent(share: float, other: float) -> str:
    """A share in three digits, or more if the two would look the same."""
    short = percent(share)
    return percent(share, 6) if short == percent(other) else short


def duration(seconds: int) -> str:
    """A length of time in the largest units that fit: `1d 12h`, `8m`, `0m`."""
    days, rest = divmod(seconds, 86400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    parts = [
        f"{number}{unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if number
    ]
    return " ".join(parts[:2]) or "0m"


def faster(seconds: float) -> str:
    """So many seconds fewer, or more, in words."""
    if abs(seconds) < 0.0005:  # noqa: PLR2004 - it would read 0 s
        return "no faster"
    return f"{abs(seconds):.3g} s {'faster' if seconds > 0 else 'slower'}"


def percent(share: float, digits: int = 3) -> str:
    """A share as percent, with meaningful digits; never rounded up to 100 %."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    if share >= 0.9995:  # noqa: PLR2004 - three digits would read 100
        return f"{math.floor(share * 1e6 + 1e-6) / 1e4:.4f}".rstrip("0").rstrip(".") + " %"
    return f"{float(f'{share * 100:.{digits}g}'):.12f}".rstrip("0").rstrip(".") + " %"
