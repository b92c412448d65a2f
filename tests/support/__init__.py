"""Support for the tests: pytest plugins, virtual time, gRPC in memory."""
