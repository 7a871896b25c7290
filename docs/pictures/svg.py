"""A picture of lines, boxes and words as SVG, in the reader's colour scheme, on a ground of its own."""
from xml.sax.saxutils import escape

# The colours of `mxtape plot`, which people with any colour vision can tell apart (Okabe & Ito 2008).
STYLE = """
  svg { --ground: #ffffff; --ink: #1b1f24; --faint: #69707a; --line: #b4bac2; --box: #f2f4f7;
        --blue: #0072b2; --red: #c24e00; --green: #00795a; --blue-fill: #d6e9f5; --red-fill: #fbe3d3; --green-fill: #d3efe6; }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #16191d; --ink: #e4e7eb; --faint: #9aa3ad; --line: #565e68; --box: #22272d;
          --blue: #6db9ea; --red: #f0935a; --green: #4fc7a3; --blue-fill: #173a52; --red-fill: #532d17; --green-fill: #12443a; } }
  text { font-family: system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; font-size: 14px; fill: var(--ink); }
  .small { font-size: 12.5px; } .faint { fill: var(--faint); } .strong { font-weight: 600; }
  .code { font-family: ui-monospace, "DejaVu Sans Mono", "Liberation Mono", monospace; font-size: 13px; }
  .tiny { font-size: 11px; }
  .middle { text-anchor: middle; } .end { text-anchor: end; }
  .blue { fill: var(--blue); } .red { fill: var(--red); } .green { fill: var(--green); }
  .box { fill: var(--box); stroke: var(--line); }
  .blue-box { fill: var(--blue-fill); stroke: var(--blue); } .red-box { fill: var(--red-fill); stroke: var(--red); }
  .green-box { fill: var(--green-fill); stroke: var(--green); }
  .rule { stroke: var(--line); } .way { stroke: var(--faint); fill: none; stroke-width: 1.4; }
  .thick { stroke-width: 3; } .blue-rule { stroke: var(--blue); } .red-rule { stroke: var(--red); } .green-rule { stroke: var(--green); }
  .ground { fill: var(--ground); } .head { fill: var(--faint); }
"""


def number(x):
    return f"{x:.2f}".rstrip("0").rstrip(".")


class Picture:
    def __init__(self, width, height, title):
        self.size, self.title, self.parts = (width, height), title, []

    def add(self, name, kind, content=None, **attributes):
        values = {key.replace("_", "-"): number(v) if isinstance(v, (int, float)) else v for key, v in attributes.items()}
        words = "".join(f' {key}="{escape(value)}"' for key, value in {"class": kind, **values}.items() if value)
        self.parts.append(f"<{name}{words}/>" if content is None else f"<{name}{words}>{escape(content)}</{name}>")

    def text(self, x, y, words, kind="", turned=False):
        turn = {"transform": f"rotate(-90 {number(x)} {number(y)})"} if turned else {}
        self.add("text", kind, words, x=x, y=y, **turn)

    def box(self, x, y, width, height, kind="box", round=4):
        self.add("rect", kind, x=x, y=y, width=width, height=height, rx=round)

    def line(self, x1, y1, x2, y2, kind="rule"):
        self.add("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def arrow(self, *points):
        """Along points, with a head at the last one."""
        (x0, y0), (x1, y1) = points[-2:]
        dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
        self.add("polyline", "way", points=" ".join(f"{number(x)},{number(y)}" for x, y in points))
        left = (x1 - 7 * dx - 4 * dy, y1 - 7 * dy + 4 * dx)
        right = (x1 - 7 * dx + 4 * dy, y1 - 7 * dy - 4 * dx)
        self.add("polygon", "head", points=" ".join(f"{number(x)},{number(y)}" for x, y in [(x1, y1), left, right]))

    def __str__(self):
        width, height = self.size
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
                f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n"
                f'<rect class="ground" width="{width}" height="{height}" rx="8"/>\n' + "\n".join(self.parts) + "\n</svg>\n")
