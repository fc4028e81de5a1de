"""Emitters: loop IR kernels as LLVM text (the product) and as C99 (its independent check)."""
