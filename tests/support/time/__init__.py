"""Virtual time: event loops whose clock is a number."""
