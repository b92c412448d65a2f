"""Known real bugs, each reproduced before the exporter as it is shipped: docs/track-record.md."""
