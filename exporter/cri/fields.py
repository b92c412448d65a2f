"""What messages about events and lists have in common: ids, texts and pods, checked.

Malformed content is counted, never raised.
"""

from collections import Counter
from dataclasses import dataclass, field

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.model.events import Pod
from exporter.model.labels import Malformed


@dataclass(slots=True)
class Fields:
    """Reads fields, and counts their flaws in `flaws`."""

    flaws: Counter[Malformed] = field(default_factory=Counter)

    def is_id(self, text: str) -> bool:
        """Whether that can be an id; a cut one might be another's."""
        if not text:
            self.flaws[Malformed.EMPTY_ID] += 1
            return False
        if len(text) > limits.TEXT:
            self.flaws[Malformed.TOO_LONG] += 1
            return False
        if not text.isascii():
            self.flaws[Malformed.NOT_ASCII] += 1
            return False
        return True

    def cut(self, text: str) -> str:
        """The text, or as much of it as is kept."""
        if len(text) > limits.TEXT:
            self.flaws[Malformed.TOO_LONG] += 1
            text = text[: limits.TEXT]
        if not text.isascii():
            # Kubernetes' names are ASCII; others would take four times their size in memory.
            self.flaws[Malformed.NOT_ASCII] += 1
            return text.encode("ascii", "replace").decode("ascii")
        return text

    def pod(self, sandbox: pb.PodSandbox | pb.PodSandboxStatus) -> Pod | None:
        """The sandbox's pod."""
        if not sandbox.HasField("metadata"):
            self.flaws[Malformed.NO_METADATA] += 1
            return None
        metadata = sandbox.metadata
        return Pod(self.cut(metadata.namespace), self.cut(metadata.name), self.cut(metadata.uid))
