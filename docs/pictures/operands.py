"""The operands of a linear layer's and of attention's GEMMs, with the axes that kernels/slots.h gives their blocks."""
import re

from svg import Picture

# Each GEMM: its name, what it gives, its operands with their letters as they are stored (rows, columns), what it is for.
LINEAR = [
    ("fprop", "Y = X W\u1d40", "forward", [("x", "X", "MK"), ("w", "W", "NK")], ("Y", "MN")),
    ("dgrad", "dX = dY W", "backward, to the layer below", [("dy", "dY", "MN"), ("w", "W", "NK")], ("dX", "MK")),
    ("wgrad", "dW = dY\u1d40 X", "backward, for the update", [("dy", "dY", "MN"), ("x", "X", "MK")], ("dW", "NK")),
]
ATTENTION = [
    ("qk", "S = Q K\u1d40", "forward", [("q", "Q", "TD"), ("k", "K", "SD")], ("S", "TS")),
    ("pv", "O = P V", "forward, P = softmax(S)", [("p", "P", "TS"), ("v", "V", "SD")], ("O", "TD")),
    ("dv", "dV = P\u1d40 dO", "backward", [("p", "P", "TS"), ("do", "dO", "TD")], ("dV", "SD")),
    ("dp", "dP = dO V\u1d40", "backward", [("do", "dO", "TD"), ("v", "V", "SD")], ("dP", "TS")),
    ("dq", "dQ = dS K", "backward, dS from dP and P", [("ds", "dS", "TS"), ("k", "K", "SD")], ("dQ", "TD")),
    ("dk", "dK = dS\u1d40 Q", "backward", [("ds", "dS", "TS"), ("q", "Q", "TD")], ("dK", "SD")),
]


def axes(root):
    """Of every slot: "row" or "column", the axis of its matrix that its GEMM sums over."""
    text = (root / "kernels" / "slots.h").read_text()
    return dict(re.findall(r'\{"([a-z.]+)", Axis::(row|column)\}', text))


WORDS = {"T": "queries", "S": "keys"}  # what attention's lengths are called; the others by their letters


def name_of(letter):
    return WORDS.get(letter, letter)


def matrix(picture, x, y, lengths, letters, name, axis, below):
    """A matrix with four blocks drawn along its axis; the letter that is summed over is red."""
    height, width = (lengths[letter] for letter in letters)
    summed = None if axis is None else letters[1] if axis == "row" else letters[0]
    picture.box(x, y, width, height, "box" if axis is None else "blue-box", round=2)
    if axis == "row":
        for i in range(1, 4):
            picture.line(x, y + height * i / 4, x + width, y + height * i / 4, "blue-rule")
        picture.line(x + width / 2, y, x + width / 2, y + height, "blue-rule")
    elif axis == "column":
        for i in range(1, 4):
            picture.line(x + width * i / 4, y, x + width * i / 4, y + height, "blue-rule")
        picture.line(x, y + height / 2, x + width, y + height / 2, "blue-rule")
    down, across = map(name_of, letters)
    picture.text(x + width / 2, y - 7, across, "middle small " + ("red strong" if letters[1] == summed else "faint"))
    turned = len(down) > 1
    picture.text(x - 12 + 5 * turned, y + height / 2 + 5 * (not turned), down,
                 "middle small " + ("red strong" if letters[0] == summed else "faint"), turned)
    picture.text(x + width / 2, y + height + 17, name, "middle strong")
    if below:
        picture.text(x + width / 2, y + height + 34, below, "middle code")
    return summed


def gemm(picture, x, y, row, lengths, table, used):
    name, formula, when, operands, (result, letters) = row
    picture.text(x, y, formula, "strong")
    picture.text(x + 112, y, when, "small faint")
    at, top, summed = x + 22, y + 32, set()
    for tensor, shown, stored in operands:
        slot = f"{name}.{tensor}"
        used.add(slot)
        summed.add(matrix(picture, at, top, lengths, stored, shown, table[slot], slot))
        at += max(lengths.values()) + 44
    if len(summed) != 1:
        raise SystemExit(f"docs/pictures: the operands of {name} are summed over {summed}: the pictures are wrong, or kernels/slots.h")
    picture.arrow((at - 26, top + 30), (at - 2, top + 30))
    matrix(picture, at + 26, top, lengths, letters, result, None, "")
    picture.text(at + 26 + lengths[letters[1]] + 14, top + 34, f"sum over {name_of(summed.pop())}", "small red")


def draw(root, title, rows, lengths, columns, words, slots):
    table, used = axes(root), set()
    wide, high = 3 * max(lengths.values()) + 246, max(lengths[letter] for *_, letters in sum((r[3] for r in rows), []) for letter in letters[:1]) + 104
    down = -(-len(rows) // columns)
    picture = Picture(28 + columns * wide, 36 + down * high + 22 * len(words), title)
    for i, row in enumerate(rows):
        gemm(picture, 24 + (i % columns) * wide, 34 + (i // columns) * high, row, lengths, table, used)
    for i, line in enumerate(words):
        picture.text(24, 38 + down * high + 22 * i, line, "small faint")
    if used != slots:
        raise SystemExit(f"docs/pictures: {title} shows {sorted(used)}; kernels/slots.h has {sorted(slots)}")
    return picture


def linear(root):
    slots = {name for name in axes(root) if re.match("(fprop|dgrad|wgrad)[.]", name)}
    return draw(root, "The six operands of a linear layer, and the axis of their blocks", LINEAR, {"M": 96, "N": 76, "K": 120}, 1,
                ["M tokens, K features in, N features out. Blue: an operand, rounded to a format of its own,",
                 "in blocks along the axis that the GEMM sums over. Grey: a result, summed in f32.",
                 "X, W and dY enter two GEMMs each. These sum over other axes, so each has two copies."], slots)


def attention(root):
    slots = {name for name in axes(root) if re.match("(qk|pv|dv|dp|dq|dk)[.]", name)}
    return draw(root, "The twelve operands of attention, and the axis of their blocks", ATTENTION, {"T": 72, "S": 84, "D": 50}, 2,
                ["For each head, of width D. Blue: an operand, rounded to a format of its own, in blocks along the axis that the GEMM sums over. Grey: a result."],
                slots)
