"""The documentation's site: `sphinx-build -W --keep-going -q -b html docs docs/_build`. It is built offline."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "tools"), str(ROOT)]

import pipeall  # noqa: E402

project = "pipeall"
copyright = "pipeall's authors"
version = release = pipeall.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "commands",
    "docstrings",
    "public",
    "registries",
]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

autosummary_generate = False  # a page of its own for each name is more than they need
autodoc_member_order = "bysource"
smartquotes = False  # an option's two dashes are no long one
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 100

html_theme = "pydata_sphinx_theme"
html_title = "pipeall"
html_static_path = ["_static"]
html_css_files = ["pipeall.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}
