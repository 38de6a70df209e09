"""Generated stubs of the wire format; see protos/spade_rl/v1."""
