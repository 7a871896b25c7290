"""Sphinx's configuration: all pages as they are in the repository, which they stay readable in. Run by ./run site."""
import pathlib
import re

root = pathlib.Path(__file__).resolve().parents[2]
contents = (root / "docs" / "README.md").read_text(encoding="utf-8")

project = "mxtape"
release = re.search(r"project\(mxtape VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text()).group(1)
extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "examples/**/README.md", "tests/**/README.md"]
exclude_patterns = ["build*", "runs", ".*"]
smartquotes = False
myst_heading_anchors = 4
highlight_language = "none"  # indented lines are commands and what they print
pygments_style, pygments_dark_style = "friendly", "github-dark"

html_theme = "furo"
html_title = f"mxtape {release}"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_sphinx = html_show_copyright = html_copy_source = html_show_sourcelink = False
templates_path = ["."]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
                        "api_link.html", "sidebar/scroll-end.html"]}


def groups():
    """The sidebar is the list of docs/README.md: its headings, and the pages of their tables."""
    for part in re.split(r"^## ", contents, flags=re.M)[1:]:
        pages = re.findall(r"^\* \[[^]]+\]\(([^):#]+)\.md\)", part, flags=re.M)
        if pages:
            yield part.splitlines()[0], [str(pathlib.PurePosixPath("docs", page)) for page in pages]


def add_navigation(app, name, source):
    navigation = [("All pages", ["docs/README"]), *groups()]
    if name == root_doc:
        for caption, pages in navigation:
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
    elif not any(name in pages for _, pages in navigation):  # reached by links alone
        source[0] = "---\norphan: true\n---\n" + source[0]
    # Folders of the repository are no part of the site: what links to one is plain text here.
    here = (root / name).parent
    source[0] = re.sub(r"\[([^]]+)\]\(([^):#]+)\)", lambda m: m[1] if (here / m[2]).is_dir() else m[0], source[0])


def name_index(app, error):
    if not error and app.builder.name == "html":
        (pathlib.Path(app.outdir) / "index.html").write_bytes((pathlib.Path(app.outdir) / "README.html").read_bytes())


def setup(app):
    app.connect("source-read", add_navigation)
    app.connect("build-finished", name_index)
