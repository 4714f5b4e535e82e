"""A manifest of which this user may not read everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.ingest.manifest import list_table_files
from assets.ingest.readers import read_table
from assets.ingest.rejects import ManifestError
from tests.assets.manifests import write_manifest
from tests.ordinary_user import open_folder, ordinary_user


def ingested(folder: Path) -> int:
    """How many rows the tables have, as an ordinary user reads them."""
    with ordinary_user():
        return sum(len(list(read_table(path, kind))) for kind, path in list_table_files(folder).items())


def test_a_table_without_the_right_to_read_is_one_sentence() -> None:
    with open_folder() as folder:
        write_manifest(folder, ["v"])
        assert ingested(folder) == 1
        (folder / "captions.jsonl").chmod(0o000)
        with pytest.raises(ManifestError, match=r"captions\.jsonl: cannot be read: Permission denied"):
            ingested(folder)
