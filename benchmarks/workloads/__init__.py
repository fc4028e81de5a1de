"""One file a workload: ``measure(quick) -> list[Figure]``, and a function per contestant."""
