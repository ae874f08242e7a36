"""Fetch the OpenAPI documents of a queue that runs, for `docs/openapi/`.

`python -m tools.documents.openapi_documents` asks the services of this machine (`lakequeue up`) and
writes the documents; `make docs` then makes the page of them. Tests compare them with what nodes
answer.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

import httpx2

FOLDER: Final = Path(__file__).parents[2] / "docs" / "openapi"
SERVICES: Final = ("ingest", "consumer")


def fetched(url: str) -> dict[str, Any]:
    """The document of the node at `url`."""
    document: dict[str, Any] = httpx2.get(f"{url}/openapi.json", timeout=20).json()
    return document


def kept(service: str) -> dict[str, Any]:
    """The document that lies in `docs/openapi/`."""
    document: dict[str, Any] = json.loads((FOLDER / f"{service}.json").read_text())
    return document


def main() -> None:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ingest", default="http://127.0.0.1:8080", help="URL of an ingest node")
    parser.add_argument("--consumer", default="http://127.0.0.1:8081", help="of the other")
    asked = vars(parser.parse_args())
    FOLDER.mkdir(exist_ok=True)
    for service in SERVICES:
        text = json.dumps(fetched(asked[service]), indent=1, sort_keys=True, ensure_ascii=False)
        (FOLDER / f"{service}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
