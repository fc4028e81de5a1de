"""Files in and out. Today: safetensors (:mod:`lamella.io.safetensors`)."""

from lamella.io.safetensors import load, read_metadata, save

__all__ = ["load", "read_metadata", "save"]
