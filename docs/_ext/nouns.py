"""Sphinx extension: names lead to the reference, under the name by which users import them.

- A type of a signature names the file where it is defined; the reference lists it where it is public.
- Inline code, of docstrings and pages alike, is a link where it names something public; in tables of theorems, a
  function of `swapcal.bounds`.
"""

import importlib
import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

PACKAGE = "swapcal."
THEOREMS = ("guarantees", "monitoring", "rates")
"""pages whose tables call functions of `swapcal.bounds` by their bare names"""
TELLING = re.compile(r"[A-Z]\w*[a-z]\w*|\w+_\w+")
"""bare names that mean nothing else: nouns, and what has an underscore inside"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("missing-reference", _public_name)
    app.connect("doctree-resolved", _link_inline_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _public_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Element | None:
    if node.get("refdomain") != "py":
        return None
    python: PythonDomain = env.domains.python_domain
    target = node["reftarget"]
    for name in (_public_names(python).get(_home(target)), f"{PACKAGE}{target}"):
        if name in python.objects:
            found = python.objects[name]
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, shown, name)
    ours = target.startswith(PACKAGE)
    return None if ours and _home(target) is None else shown


def _public_names(python: PythonDomain) -> dict[str | None, str]:
    """Return the listed name of each class and function by the place of its definition."""
    return {_home(name): name for name, found in python.objects.items() if _is_noun(found)}


def _is_noun(found: ObjectEntry) -> bool:
    """Tell whether an entry is a class or function under the name by which it is listed."""
    return found.objtype in ("class", "exception", "function") and not found.aliased


def _home(name: str) -> str | None:
    """Return where something is defined, None if there is no such thing."""
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return None
    return f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', attribute)}"


def _link_inline_code(app: Sphinx, doctree: nodes.document, page: str) -> None:
    python: PythonDomain = app.env.domains.python_domain
    for code in list(doctree.findall(nodes.literal)):
        if isinstance(code.parent, nodes.reference | nodes.title) or "xref" in code["classes"]:
            continue
        name = _named(code, page, python)
        if name is not None:
            found = python.objects[name]
            link = make_refnode(app.builder, page, found.docname, found.node_id, code.deepcopy(), name)
            code.replace_self(link)


def _named(code: nodes.literal, page: str, python: PythonDomain) -> str | None:
    text = code.astext().removesuffix("()")
    if not re.fullmatch(r"[\w.]+", text):
        return None
    candidates = [text, PACKAGE + text] if "." in text else []
    if "." not in text and TELLING.fullmatch(text):
        candidates += [PACKAGE + text, *_only(text, python)]
    if page in THEOREMS and isinstance(code.parent.parent, nodes.entry):
        candidates.append(f"{PACKAGE}bounds.{text}")
    return next((name for name in candidates if name in python.objects and name.startswith(PACKAGE)), None)


def _only(text: str, python: PythonDomain) -> list[str]:
    found = [name for name, each in python.objects.items() if name.endswith(f".{text}") and _is_noun(each)]
    return found if len(found) == 1 else []
