"""How the site is built: `make docs`. Nothing here may need the network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from swapcal.version import __version__

project = "swapcal"
author = "the swapcal developers"
copyright = "the swapcal developers, BSD 3-clause licence"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "docstrings",
    "generated",
    "nouns",
    "stamps",
]
exclude_patterns = ["_ext", "_static"]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

smartquotes = False  # options keep their two hyphens, and can be pasted
nitpicky = True
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
maximum_signature_line_length = 88
napoleon_custom_sections = [("Fields", "params_style")]
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = True
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"swapcal {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
