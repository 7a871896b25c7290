#!/usr/bin/env python3
"""Writes unicode.txt from the Unicode Character Database, version 16.0.

Needs Python 3.14, or another one with `pip install unicodedata2==16.0.0`. Run: ./make_tables.py > unicode.txt
"""
import sys
import textwrap

try:
    import unicodedata2 as ucd
except ImportError:
    import unicodedata as ucd

VERSION = "16.0.0"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcd"
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic


def runs(value):
    """[(value, length)] of value(code point) over all code points."""
    found = []
    for c in range(0x110000):
        v = value(chr(c))
        if found and found[-1][0] == v:
            found[-1][1] += 1
        else:
            found.append([v, 1])
    return found


def section(name, text):
    print(f"\n[{name}]")
    print("\n".join(textwrap.wrap(text, 118, break_on_hyphens=False)))


def decompositions():
    """'step first second' per character in hexadecimal; '-' marks pairs that are never composed."""
    last, parts = 0, []
    for c in range(0x110000):
        text = ucd.decomposition(chr(c))
        if c in HANGUL or not text or text.startswith("<"):
            continue
        mark = "" if ucd.normalize("NFC", chr(c)) == chr(c) else "-"
        parts.append(f"{mark}{c - last:x}:{text.replace(' ', '+').lower()}")
        last = c
    return " ".join(parts)


if ucd.unidata_version != VERSION:
    sys.exit(f"this Python has Unicode {ucd.unidata_version}, want {VERSION}: pip install unicodedata2=={VERSION}")
print(f"""# Unicode {VERSION}. Written by make_tables.py, which says how; do not edit.
# categories: a letter per general category and how many code points in a row have it; one if no number.
# combining: canonical combining class x how many code points in a row have it.
# decompositions: canonical ones without Hangul, hexadecimal: step from the last one : one or two characters. A minus marks
# those that no composition gives back.""")
letter = dict(zip(CATEGORIES, LETTERS))
section("categories", " ".join(letter[v] + (str(n) if n > 1 else "") for v, n in runs(ucd.category)))
section("combining", " ".join(f"{v}x{n}" for v, n in runs(ucd.combining)))
section("decompositions", decompositions())
