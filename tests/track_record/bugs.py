"""The table of known bugs, a row for each, which docs/track-record.md shows."""

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Final

from testbed.containerd import why_not
from tests.track_record import happening
from tests.track_record.story import Story

_BY_DESIGN: Final = "compatibility.md#what-is-never-announced"


@dataclass(frozen=True, slots=True)
class Bug:
    """One row; the function of its name in `happening` makes it happen.

    `what`: what goes wrong; `source`: where that is reported, on GitHub, or empty.

    `containerd`: the version that has it; empty: the simulator, in place of a CRI-O. `says`: what
    the exporter has to say, as in `Story`.
    """

    name: str
    source: str
    what: str
    containerd: str
    says: tuple[str, ...]

    @property
    def title(self) -> str:
        return "#".join(self.source.split("/")[1::2]) or "by design"

    @property
    def link(self) -> str:
        return self.source and f"https://github.com/{self.source}"

    @property
    def part(self) -> str:
        return f"containerd {self.containerd}" if self.containerd else "simulated CRI-O 1.36"

    @property
    def why_not(self) -> str:
        return self.containerd and why_not(self.containerd)

    async def reproduce(self) -> None:
        """Make it happen, and show that; AssertionError if the exporter does not say it."""
        show = sys.stdout.write
        show(f"{self.name}: {self.what}\n  {self.link or self.title}, on {self.part}\n")
        story, log = Story(self.says, show), io.StringIO()
        happens = getattr(happening, self.name.replace("-", "_"))
        try:
            # The exporter's whole log, which is written when it ends.
            with redirect_stdout(log):
                await happens(story)
        except BaseException:
            show(log.getvalue())
            raise
        show("\n")


_MISSED: Final = "kube_pod_missed_events_total"
_SILENT: Final = f'{_MISSED}{{cause="silent"}} = 0'

BUGS: Final = (
    Bug(
        "second-subscriber",
        "containerd/containerd/issues/7318",
        "all subscribers share one channel: a second one takes events from the kubelet",
        "1.7",
        (
            'shadow_pleg_stream_state{state="refused"} = 1',
            "shadow_pleg_events_received_total = 0",
            "log: event stream refused",
            "headline: Not watching the event stream",
        ),
    ),
    Bug(
        "shared-stream",
        "containerd/containerd/issues/7318",
        "the same, and shadow-pleg is made to subscribe",
        "1.7",
        (
            f'{_MISSED}{{cause="shared",event="ContainerDied"}} > 0',
            "headline: The exporter takes the kubelet's events",
            _SILENT,
        ),
    ),
    Bug(
        "frozen-neighbour",
        "containerd/containerd/pull/9661",
        "events are sent to one subscriber after the other: all wait for one that is frozen",
        "2.1",
        (
            "shadow_pleg_stream_stalls_total > 0",
            f'{_MISSED}{{cause="stalled",event="ContainerDied"}} > {happening.EXITS - 1}',
            _SILENT,
            "log: event stream stalled",
            "headline: The event stream is open and delivers nothing in time",
        ),
    ),
    Bug(
        "last-left",
        "containerd/containerd/pull/9661",
        "events are kept while there is no subscriber, but for the first ones after the last left",
        "2.1",
        (
            f'{_MISSED}{{cause="stream_down",event="ContainerDied"}} > 0',
            'shadow_pleg_verdicts_total{verdict="backlog"} > 0',
            _SILENT,
            "headline: The event stream was interrupted",
        ),
    ),
    Bug(
        "failed-start",
        "",
        "a container whose start failed is listed as exited, and no exit is announced",
        "2.1",
        (
            f'{_MISSED}{{cause="by_design",event="ContainerDied"}} = 1',
            _SILENT,
            "headline: The event stream is complete",
        ),
    ),
    Bug(
        "ghost",
        "containerd/containerd/issues/12678",
        "a container is listed as running forever, and its process has ended",
        "2.1",
        (
            'shadow_pleg_active_contradictions{kind="ghost"} = 1',
            "log: ghost container",
            "headline: The runtime lists containers as running that have ended",
        ),
    ),
    Bug(
        "stray",
        "containerd/containerd/issues/10727",
        "a container whose shim is killed is listed as exited, and its process runs on",
        "2.1",
        (
            'shadow_pleg_active_contradictions{kind="stray"} = 1',
            "log: stray container",
            "headline: Containers run that the runtime does not list",
        ),
    ),
    Bug(
        "twins",
        "kubernetes/kubernetes/issues/123087",
        "a kubelet that took an older state for the newer one starts a second copy of a container",
        "2.1",
        (
            'shadow_pleg_active_contradictions{kind="twin"} = 1',
            "log: twin container",
            "headline: Two containers of one pod and one name run at once",
            _SILENT,
        ),
    ),
    Bug(
        "out-of-order",
        "cri-o/cri-o/issues/9738",
        "the STOPPED of a short life is announced before its STARTED",
        "",
        (
            f'shadow_pleg_events_received_total{{event="STOPPED"}} = {happening.EXITS}',
            f'shadow_pleg_flawed_events_total{{flaw="out_of_order"}} = {happening.EXITS}',
            f"{_MISSED} = 0",
            'shadow_pleg_verdicts_total{verdict="gap"} = 0',
            "headline: Events come with wrong contents",
        ),
    ),
    Bug(
        "empty-status",
        "cri-o/cri-o/issues/9663",
        "events hold empty container statuses, on which kubelets up to 1.36 panic",
        "",
        (
            'shadow_pleg_flawed_events_total{event="STOPPED",flaw="empty_status"} = 1',
            'shadow_pleg_flawed_events_total{event="STOPPED",flaw="no_status"} = 1',
            f"{_MISSED} = 0",
        ),
    ),
)


def rows() -> Iterator[tuple[str, ...]]:
    yield "`BUG=`", "what goes wrong", "on", "shadow-pleg says"
    for bug in BUGS:
        source = f"[{bug.title}]({bug.link or _BY_DESIGN})"
        says = "<br>".join(f"`{each}`" for each in bug.says)
        yield f"`{bug.name}`", f"{source}: {bug.what}", bug.part, says
