"""Each change of a witness is logged once."""

from structlog.testing import capture_logs

from exporter.model.labels import StreamState
from exporter.node.witness import Witness

UP, DOWN, TRYING = StreamState.STREAMING, StreamState.BACKOFF, StreamState.CONNECTING


def test_what_is_tried_again_is_logged_once_until_it_works() -> None:
    """Two errors that alternate are two lines, whatever comes between; later ones are debug."""
    witness = Witness("event stream", TRYING, essential=True)
    with capture_logs() as log:
        for _ in range(2):
            for reason in ("eof", "aborted"):
                witness.become(DOWN, f"it said {reason}", reason)
                witness.state = TRYING
        witness.become(UP, lease_seconds=60)
        witness.become(UP)
        witness.become(DOWN, "it said eof", "eof")
    assert [(each["log_level"], each.get("reason")) for each in log] == [
        *(("warning", "eof"), ("warning", "aborted"), ("debug", "eof"), ("debug", "aborted")),
        *(("info", None), ("warning", "eof")),
    ]
    assert log[4]["event"] == "event stream streaming"
    assert (witness.works, witness.reason) == (False, "eof")


def test_what_never_worked_and_need_not_is_no_warning() -> None:
    """That it stopped is one, and so is that it works in part only."""
    witness = Witness("kernel witness", TRYING)
    with capture_logs() as log:
        witness.become(DOWN, "no such folder")
        witness.become(UP)
        witness.become(UP, "no notifications")
        witness.become(DOWN, "no such folder")
    levels = [each["log_level"] for each in log]
    assert levels == ["info", "info", "warning", "warning"]
