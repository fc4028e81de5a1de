"""Programs for people who work on Lamella: executed documentation, the support table, the API reference."""
