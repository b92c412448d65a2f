"""Values of metrics' labels."""

from enum import Enum


class Malformed(Enum):
    """A flaw in a runtime's message that does not make it useless as a whole."""

    EMPTY_ID = "empty_id"
    UNKNOWN_STATE = "unknown_state"
    UNKNOWN_EVENT = "unknown_event"
    NO_METADATA = "no_metadata"
    BAD_TIME = "bad_time"
    UNDECODABLE = "undecodable"
    TOO_LONG = "too_long"
    TOO_LARGE = "too_large"
    NOT_ASCII = "not_ascii"


class Unusable(Enum):
    """Why a kubelet cannot use a STOPPED: it names no pod, or not how the container ended."""

    NO_POD_UID = "no_pod_uid"
    NO_STATUS = "no_status"
