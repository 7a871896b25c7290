# ./run site, sourced by it: all pages and the C++ API as HTML in build/site, to be read from a server or from the folder.
# Sphinx and its theme come from PyPI into build/site-tools, in the versions of docs/site/requirements.txt.

# The tools, fetched once for each requirements.txt.
site_tools() {
  local wanted=docs/site/requirements.txt
  ! cmp -s "$wanted" build/site-tools/requirements.txt || return 0
  say "fetching Sphinx into build/site-tools"
  rm -rf build/site-tools
  mkdir -p build
  if ! python3 -m venv build/site-tools >build/site-tools.log 2>&1; then
    rm -rf build/site-tools
    ! command -v python3 >/dev/null || refuse "python3 here makes no virtual environment with pip (build/site-tools.log); on Debian:" \
      "apt-get install python3-venv"
    refuse "no python3, which the site's generator needs; apt-get install python3-venv"
  fi
  build/site-tools/bin/pip install --quiet --disable-pip-version-check -r "$wanted" 2>&1 | tee -a build/site-tools.log || {
    rm -rf build/site-tools
    refuse "pip could not fetch what $wanted lists: it needs Python 3.11, and PyPI or a mirror of it (https_proxy, PIP_INDEX_URL)"
  }
  cp "$wanted" build/site-tools/
}

# The API in $1/api, in the colours of the theme if the tools are there.
site_api() {  # folder
  local style=(build/site-tools/lib/python3*/site-packages/doxygen_awesome_css/doxygen-awesome.css)
  {
    cat docs/site/Doxyfile
    printf 'OUTPUT_DIRECTORY = "%s"\n' "$1"
    [ ! -f "${style[0]}" ] || printf 'HTML_EXTRA_STYLESHEET = "%s"\nGENERATE_TREEVIEW = YES\n' "${style[0]}"
    [ "$(printf '1.9.5\n%s\n' "$(doxygen --version)" | sort -V | head -n 1)" != 1.9.5 ] || printf 'HTML_COLORSTYLE = LIGHT\n'
  } | doxygen -
}

site() {
  command -v doxygen >/dev/null || install Doxygen doxygen
  site_tools
  say "the pages"
  rm -rf build/site
  build/site-tools/bin/sphinx-build -q -E -W --keep-going -c docs/site -d build/site-tools/doctrees . build/site
  say "the C++ API"
  site_api build/site
  say "look at build/site/index.html"
}
