"""Buffers, the thread pool, the program cache on disk, and the native loop that runs programs."""
