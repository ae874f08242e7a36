"""What `mkdocs` is told beside `mkdocs.yml`: the README is the first page; links fit the site.

A link to a file outside of `docs/` has no page on the site: there it is the file's path.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
MERMAID = REPOSITORY / ".venv" / "site" / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
"""Makes the drawings; `make site` has npm put it there."""
DRAWINGS = "assets/mermaid.min.js"
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """The README is a page of `docs/` as well."""
    # It is there only where a site is built.
    from mkdocs.structure.files import File

    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=moved(text, "README.md", "docs/")))
    # Else the theme would fetch it from elsewhere, whenever a page is looked at.
    files.append(File.generated(config, DRAWINGS, abs_src_path=str(MERMAID)))
    config.extra_javascript.append(DRAWINGS)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page, as the site has them."""
    if page.file.src_uri == "index.md":
        return markdown
    return moved(
        markdown, f"docs/{page.file.src_uri}", f"docs/{posixpath.dirname(page.file.src_uri)}"
    )


def moved(markdown: str, source: str, folder: str) -> str:
    """`markdown` of the file `source` with links as a file in `folder` has them."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["target"]))
        path = REPOSITORY / target
        if path.is_dir() and (path / "README.md").exists():
            target = f"{target}/README.md"
        if not target.startswith("docs/") or (REPOSITORY / target).is_dir():
            same = found["text"].strip("`").rstrip("/") == target.rstrip("/")
            return f"`{target}`" if same else f"{found['text']} (`{target}`)"
        there = posixpath.relpath(target, folder.rstrip("/") or ".")
        return f"[{found['text']}]({there}{found['anchor'] or ''})"

    return _LINK.sub(link, markdown)
