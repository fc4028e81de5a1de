"""For people who work on Lamella: executed documentation, support table, API reference."""
