"""OOM kills that nobody told of, as they were reported."""

import pytest

from tests.support.facts import Given, emptied
from tests.support.oom import check, ends, killed

pytestmark = pytest.mark.quick

OVER = emptied("c1", 20)
# On systemd a container's folder is gone as soon as it is empty: its pod's count is left.
OF_POD = killed(20, "")
REPORTS: dict[str, tuple[list[Given], list[str]]] = {
    # Workers of gunicorn were killed again and again. The pod stayed Running, with 0 restarts.
    "https://github.com/kubernetes/kubernetes/issues/69676": ([killed(20)], ["c1 survived"]),
    # containerd's shim began to watch for it after the start, and read the count when it was gone:
    # the reason was Error for ever.
    "https://github.com/containerd/containerd/issues/12260": (
        [killed(20), OVER, ends(20.1, 137, "Error")],
        ["c1 announced_as_error"],
    ),
    "https://github.com/systemd/systemd/issues/40102": (
        [OF_POD, OVER, ends(20.1, 137, "Error")],
        ["c1 announced_as_error"],
    ),
    # `container_oom_events_total` was 0 on every node: its series went with the container.
    "https://github.com/google/cadvisor/issues/3015": (
        [OF_POD, OVER, ends(20.1)],
        ["c1 announced"],
    ),
    # A child was killed, init ended with 0, and the reason was OOMKilled: two facts in one word.
    "https://github.com/kubernetes/kubernetes/issues/104454": (
        [killed(20), OVER, ends(20.1, 0)],
        ["c1 survived", "c1 reason_only"],
    ),
    # An event told of an OOM at a limit; the count of kills had not risen, and that alone counts.
    "https://github.com/containerd/containerd/issues/7102": (
        [OVER, ends(20.1)],
        ["c1 reason_only"],
    ),
}


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(("story", "expected"), REPORTS.values(), ids=REPORTS)
def test_what_happened_to_a_process_is_found(
    story: list[Given], expected: list[str], *, between: bool
) -> None:
    """Of the container that it was in, with its pod, and once."""
    check(story, expected, between=between)
