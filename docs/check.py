"""Check the built site: every link leads somewhere, and nothing is asked of other hosts.

python docs/check.py build/site
"""

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ASKING = {
    "img": ("src", "srcset"),
    "script": ("src",),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "object": ("data",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
}
"""Attributes that a browser follows by itself."""
ASKED_BY_LINK = ("stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest")
IN_STYLES = ("url(http", "url('http", 'url("http', "url(//", "@import")
IN_SCRIPTS = ("fetch('http", 'fetch("http', "importScripts(")


class Page(HTMLParser):
    """What a page offers to link to, links to, and makes a browser ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors, self.links, self.asked = {""}, [], []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect from one tag."""
        given = {name: value or "" for name, value in attributes}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and set(given.get("rel", "").split()) & {*ASKED_BY_LINK}:
            self.asked.append(given.get("href", ""))
        self.asked += [given[name] for name in ASKING.get(tag, ()) if given.get(name)]


def main(site: Path) -> int:
    """Print what is wrong; return how much."""
    faults = [*broken_links(site), *outside_requests(site)]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(list(site.rglob('*.html')))} pages, {len(faults)} faults")
    return len(faults)


def broken_links(site: Path) -> Iterator[str]:
    """Find links and pictures within the site that lead nowhere, anchors included."""
    for path in sorted(site.rglob("*.html")):
        page = _page(path)
        for link in [*page.links, *page.asked]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{path.relative_to(site)}: {link}: there is no such file"
            elif path.relative_to(site).parts[0] == "_modules":
                continue  # sources link back by the names of their modules; public names have other anchors
            elif target.suffix == ".html" and unquote(parts.fragment) not in _page(target).anchors:
                yield f"{path.relative_to(site)}: {link}: there is no such place on that page"


def outside_requests(site: Path) -> Iterator[str]:
    """Find what a browser would ask of other hosts by itself."""
    for path in sorted(site.rglob("*.html")):
        for asked in _page(path).asked:
            if urlsplit(asked).netloc:
                yield f"{path.relative_to(site)}: {asked}: asked of another host"
    for suffix, signs in ((".css", IN_STYLES), (".js", IN_SCRIPTS)):
        for path in sorted(site.rglob(f"*{suffix}")):
            text = path.read_text(encoding="utf-8")
            yield from (f"{path.relative_to(site)}: {sign}…" for sign in signs if sign in text)


@cache
def _page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1]).resolve()), 1))
