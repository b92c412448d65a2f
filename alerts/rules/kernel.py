"""Alerts: lists of the runtime that the kernel contradicts."""

from __future__ import annotations

from typing import Final

from alerts.entries import Alert

# A runtime that cleans up slowly lists an ended container as running for a while: hence their `for`.
ALERTS: Final = (
    Alert(
        name="ShadowPlegGhostContainers",
        summary="A runtime lists containers as running whose processes have ended.",
        description="""
            Delete the pods that shadow-pleg's log names; if they stay, restart the runtime.
            << number >> container(s) or sandbox(es) of << on_node >> are listed as running, although
            the kernel saw their last process end: their pods will not terminate by themselves.
        """,
        expr="max by (<< by_node >>) (shadow_pleg_ghost_containers{<< exporter >>}) > 0",
    ),
    Alert(
        name="ShadowPlegStrayContainers",
        summary="Containers run that their runtime does not list.",
        description="""
            End the processes of the containers that shadow-pleg's log names. << number >>
            container(s) or sandbox(es) of << on_node >> run in pods that the runtime knew, and it
            does not list them: nothing else will stop them.
        """,
        expr="max by (<< by_node >>) (shadow_pleg_stray_containers{<< exporter >>}) > 0",
    ),
)
