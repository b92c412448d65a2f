"""The only place that knows gRPC and protobuf: calls out, plain facts back.

gRPC's errors are translated here (`errors`) and go no further.
"""
