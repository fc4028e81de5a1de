"""A bitmap font of 5 × 7 dots for the labels of pictures: capitals, digits and a few signs.

Each glyph is seven rows of five bits, written as two hexadecimal digits a row, top row first, left
dot highest.
"""

from __future__ import annotations

import numpy as np

__all__ = ["HEIGHT", "WIDTH", "glyph"]

HEIGHT = 7
WIDTH = 5

_ROWS = {
    "A": "0E11111F111111", "B": "1E11111E11111E", "C": "0E11101010110E", "D": "1E11111111111E",
    "E": "1F10101E10101F", "F": "1F10101E101010", "G": "0E11101711110F", "H": "1111111F111111",
    "I": "0E04040404040E", "J": "0702020202120C", "K": "11121418141211", "L": "1010101010101F",
    "M": "111B1515111111", "N": "11191513111111", "O": "0E11111111110E", "P": "1E11111E101010",
    "Q": "0E11111115120D", "R": "1E11111E141211", "S": "0F10100E01011E", "T": "1F040404040404",
    "U": "1111111111110E", "V": "11111111110A04", "W": "11111115151B11", "X": "11110A040A1111",
    "Y": "11110A04040404", "Z": "1F01020408101F", "0": "0E11131519110E", "1": "040C040404040E",
    "2": "0E11010204081F", "3": "1F02040201110E", "4": "02060A121F0202", "5": "1F101E0101110E",
    "6": "0608101E11110E", "7": "1F010204080808", "8": "0E11110E11110E", "9": "0E11110F01020C",
    " ": "00000000000000", ".": "00000000000C0C", ",": "000000000C0408", ":": "000C0C000C0C00",
    "%": "18190204081303", "-": "0000001F000000", "/": "01010204081010", ">": "08040201020408",
    "(": "02040808080402", ")": "08040202020408", "=": "00001F001F0000", "?": "0E110102040004",
    "'": "04040000000000", "+": "0004041F040400", "×": "00110A040A1100", "·": "00000C0C000000",
    "²": "0C1204081E0000", "_": "0000000000001F",
}  # fmt: skip


def glyph(character: str) -> np.ndarray:
    """The dots of a character, bool ``(7, 5)``; small letters are drawn as capitals, unknown signs
    as ``?``.

    >>> glyph("i").astype(int)[0].tolist()
    [0, 1, 1, 1, 0]
    """
    rows = bytes.fromhex(_ROWS.get(character.upper(), _ROWS["?"]))
    return np.unpackbits(np.frombuffer(rows, np.uint8)[:, None], axis=1)[:, 3:].astype(bool)
