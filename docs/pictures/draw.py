"""Draws the pictures of the pages from the program and the sources.
    docs/pictures/draw.py PROGRAM           writes them
    docs/pictures/draw.py PROGRAM --check   fails if one is not what would be written (tests/docs_pictures.cmake)"""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]
sys.path.insert(0, str(here))
sys.dont_write_bytecode = True
import operands  # noqa: E402
from svg import Picture, number  # noqa: E402


def read_npy(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    return struct.unpack(f"<{(len(data) - 10 - length) // 4}f", data[10 + length:])


def write_npy(path, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (1, {len(values)}), }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}f", *values))


RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
VALUES = [0.31, -0.92, 0.55, 0.08, -0.2, 1.07, -0.64, 0.43, -0.03, 0.76, -1.3, 0.24, 0.59, -0.37, 0.14, 0.88,
          -0.49, 0.02, 0.69, -0.15, 0.98, -0.78, 0.34, -0.11, 0.5, -0.27, 1.18, -0.58, 0.19, -0.86, 0.06, 0.4]


def block(program):
    """One block of MXFP4: numbers, scale, and what is kept; all by the program."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_npy(folder / "x.npy", VALUES)

        def run(*words):
            return subprocess.run([program, *words], cwd=folder, check=True, capture_output=True, text=True).stdout

        run("quantize", "x.npy", "x.h5", "--format", "mxfp4")
        run("quantize", "x.h5", "y.npy", "--back")
        rounded = read_npy(folder / "y.npy")
        exponent = int(re.search(r"scales +2\^(-?\d+): 1\b", run("compare", "x.npy", "--format", "mxfp4", "--scales"))[1])
        about = run("formats", "mxfp4")
    grid = [float(v) for v in re.search(r"either sign ([0-9. ]+)", about)[1].split()]
    per_element, per_block = re.search(r"bits +([0-9.]+) an element, (\d+) a block", about).groups()
    element, bits = re.search(r"element +(\w+), (\d+) bits", about).groups()
    scale = 2.0 ** exponent
    codes = [v / scale for v in rounded]
    if len(VALUES) != 32 or int(per_block) != 32 * int(bits) + 8 or any(abs(c) not in [0, *grid] for c in codes):
        raise SystemExit("docs/pictures: the program's block is not what the picture says of it")
    picture = Picture(812, 436, "A block of MXFP4: 32 numbers, one scale")
    left, step, middle, unit = 96, 21, 186, 136 / grid[-1]
    for level in [0, *grid, *[-g for g in grid]]:
        y = middle - level * unit
        picture.line(left, y, left + 32 * step, y, "rule")
        picture.text(left - 8, y + 4, number(level), "end tiny faint")
    picture.text(28, middle, f"{element} grid, in scales", "middle small faint", turned=True)
    for i, (value, code) in enumerate(zip(VALUES, codes)):
        x, y = left + (i + 0.5) * step, middle - value / scale * unit
        picture.box(x - 6, min(middle, y), 12, abs(y - middle), "box", round=1)
        picture.line(x - 8, middle - code * unit, x + 8, middle - code * unit, "blue-rule thick")
        picture.text(x, 354 + 13 * (i % 2), number(code), "middle tiny blue")
    picture.text(left - 10, 360, "kept", "end small blue")
    largest = max(VALUES, key=abs)
    picture.text(left, 26, f"32 numbers, the largest {number(abs(largest))}", "")
    picture.text(left + 32 * step, 26, f"scale 2{str(exponent).translate(RAISED)} = {number(scale)}", "end red strong")
    picture.text(left, 396, f"Grey: a number divided by the scale. Blue: the {element} number that it is rounded to. A value is blue x scale.",
                 "small faint")
    picture.text(left, 418, f"32 x {bits} bits + 8 bits of scale = {per_block} bits: {per_element} an element, where f32 has 32.", "small faint")
    return picture


STEP = [  # what happens, in which words, in which file
    ("batch", "windows of T + 1 tokens, at places drawn from (seed, row)", "data/loader.cpp", "box"),
    ("forward", "each operand rounded along the summed axis, then GEMMs", "autograd/linear.cpp", "blue-box"),
    ("loss", "mean negative log-likelihood; its gradient replaces the logits", "autograd/rows.cpp", "box"),
    ("backward", "the tape in reverse; dY rounded twice, for dX and for dW", "autograd/tape.h", "blue-box"),
    ("sum", "gradients of micro-batches and devices, in a fixed order", "train/devices/passes.cpp", "box"),
    ("clip", "by the norm of all gradients; not finite: nothing is updated", "optim/adamw.cpp", "box"),
    ("update", "AdamW on the f32 master weights", "optim/adamw.cpp", "green-box"),
    ("round", "new weights into their copies, one for each axis", "autograd/linear_operands.h", "blue-box"),
]


def step(program):
    picture = Picture(800, 60 + 62 * len(STEP), "The life of one optimizer step")
    for i, (name, words, file, kind) in enumerate(STEP):
        if not (root / file).exists():
            raise SystemExit(f"docs/pictures: there is no {file}")
        y = 22 + 62 * i
        picture.box(96, y, 600, 44, kind)
        picture.text(112, y + 27, name, "strong")
        picture.text(206, y + 19, words, "small")
        picture.text(206, y + 36, file, "code faint")
        if i:
            picture.arrow((396, y - 18), (396, y))
    first, last = 22 + 62 + 22, 22 + 62 * 3 + 22
    picture.arrow((96, last), (62, last), (62, first - 62), (96, first - 62))
    picture.text(50, (first - 62 + last) / 2, "each micro-batch", "middle small faint", turned=True)
    bottom = 22 + 62 * 7 + 22
    picture.arrow((696, bottom), (734, bottom), (734, first), (696, first))
    picture.text(752, (first + bottom) / 2, "next step: the copies", "middle small faint", turned=True)
    picture.text(96, 44 + 62 * len(STEP), "Blue: numbers in few bits are made. Green: the weights themselves, which stay f32.", "small faint")
    return picture


FLOORS = {  # what each holds
    "core": "tensors, errors, random numbers, files, threads",
    "formats": "elements, scales, roundings: the definition", "data": "token files, tokenizers",
    "kernels": "calls, CPU and CUDA kernels behind one door", "dist": "one run on several devices",
    "autograd": "the tape and its ops", "nn": "layers, models", "optim": "AdamW, schedules",
    "recipes": "what a run is asked for", "interop": "models of others", "train": "trainer, checkpoints, evaluation",
    "program": "commands, runs, sweeps, reports",
}


def floors(program):
    """The floors and who may include whom: tests/layering.cmake."""
    text = (root / "tests" / "layering.cmake").read_text()
    includes = {name: set(others.split()) - {name} for name, others in re.findall(r"^set\((\w+) +([a-z ]+)\)", text, flags=re.M)}
    if set(includes) != set(FLOORS):
        raise SystemExit(f"docs/pictures: the picture has {sorted(FLOORS)}, tests/layering.cmake {sorted(includes)}")

    def height(name):  # above all that it includes
        return max((height(other) + 1 for other in includes[name]), default=0)

    rows = {}
    for name in FLOORS:
        rows.setdefault(height(name), []).append(name)
    places, top = {}, max(rows)
    picture = Picture(820, 62 + 84 * (top + 1), "The floors of the house, and what each may include")
    for level, names in rows.items():
        width = (780 - 16 * (len(names) - 1)) / len(names)
        for i, name in enumerate(names):
            x, y = 20 + i * (width + 16), 20 + 84 * (top - level)
            places[name] = (x, y, width)
            picture.box(x, y, width, 66, "green-box" if name == "formats" else "blue-box" if name == "program" else "box")
            picture.text(x + 14, y + 22, name + "/", "strong")
            picture.text(x + 14, y + 40, FLOORS[name], "small")
            lower = [other for other in FLOORS if other in includes[name]]
            everything = set(lower) == {other for other in FLOORS if height(other) < level}
            picture.text(x + 14, y + 57, "includes " + ("nothing" if not lower else "all below" if everything else ", ".join(lower)), "tiny faint")
    picture.text(20, 44 + 84 * (top + 1), "Who includes more than is said here fails tests/layering.cmake.", "small faint")
    return picture


PICTURES = {"block": block, "linear": lambda program: operands.linear(root), "attention": lambda program: operands.attention(root),
            "step": step, "floors": floors}

if __name__ == "__main__":
    program, check = str(pathlib.Path(sys.argv[1]).resolve()), "--check" in sys.argv
    stale = []
    for name, function in PICTURES.items():
        path, picture = here / f"{name}.svg", str(function(program))
        if not check:
            path.write_text(picture, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != picture:
            stale.append(f"docs/pictures/{name}.svg")
    if stale:
        raise SystemExit(f"not what docs/pictures/draw.py draws: {', '.join(stale)}; draw them again and look at them")
