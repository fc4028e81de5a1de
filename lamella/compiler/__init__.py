"""The compiler: graphs in, kernels as plain data and a memory plan out. ``pipeline.py`` lists its passes in order."""
