"""Tables that benchmarks write into the README, between two comments."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def put(name: str, text: str, page: Path = README) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.read_text().split(begin, 1)
    _, after = rest.split(end, 1)
    page.write_text(f"{before}{begin}{text}{end}{after}")
