"""The compiler: from graphs to kernels as plain data; ``pipeline`` lists its passes in order."""
