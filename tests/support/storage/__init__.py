"""Disks and logs: a storage that fails, logs built by hand, records that nothing can read."""
