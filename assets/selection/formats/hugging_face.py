"""Writes a folder that `datasets.load_dataset` loads: Parquet files, a dataset card with the passport, Croissant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assets.selection.export_input import Batch, ExportInput
from assets.selection.formats.croissant import describe_in_croissant, explain_origins
from assets.selection.formats.parquet import write_parquet
from assets.selection.partial_file import open_partial_file
from assets.selection.passport import format_passport

ROWS_OF_A_FILE = 250_000
PASSPORT, CARD, CROISSANT = "passport.json", "README.md", "croissant.json"
_MARKDOWN = re.compile(r"[\\`*_\[\]<>&|~$]")
# Without the configuration, `load_dataset` would take passport.json for data.
_HEADER = """---
pretty_name: {name}
size_categories:
- {size}
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
---
"""
_BODY = """# {title}

{rows} rows of {videos} videos, written by Reelsieve {reelsieve} at {exported_at}.

```python
from datasets import load_dataset

rows = load_dataset("PATH OF THIS FOLDER", split="train")
```

Column `media` names the file of a row's video, relative to a media root: join it with the folder where your copy of the
media lies. Columns `segments`, `extra` and `video_extra` hold JSON as text.

| column | meaning |
|---|---|
{columns}

## Origin

{origins} `croissant.json` describes the files in Croissant 1.1.

## Passport

Selection, recipe, cutoff, score hash, scorers with their models, thresholds and counts; `passport.json` holds the same.

```json
{passport}```
"""


def write_hugging_face(
    folder: Path, source: ExportInput, batches: Iterator[Batch], rows_of_a_file: int = ROWS_OF_A_FILE
) -> None:
    """Write a selection to an empty folder as data/train-*.parquet, README.md (the dataset card), passport.json and
    croissant.json. batches: its rows in order of rank, in batches. A Parquet file ends with the batch that reaches
    `rows_of_a_file` rows.
    """
    (folder / "data").mkdir()
    number = 0
    while (first := next(batches, None)) is not None:
        with open_partial_file(folder / "data" / f"train-{number:05d}.parquet") as file:
            rows = _take_file_rows(first, batches, rows_of_a_file)
            write_parquet(file, source.columns, source.passport, rows)
        number += 1
    croissant = describe_in_croissant(folder, source.columns, source.passport)
    texts = {
        PASSPORT: format_passport(source.passport),
        CARD: format_dataset_card(source.passport),
        CROISSANT: json.dumps(croissant, ensure_ascii=False, indent=2) + "\n",
    }
    for name, text in texts.items():
        with open_partial_file(folder / name) as file:
            file.write(text.encode())


def format_dataset_card(passport: Mapping[str, Any]) -> str:
    """Return the text of a dataset card, the README.md of an export for Hugging Face: a YAML header, a table of the
    columns in Markdown, and the passport as JSON. passport: as `make_passport` returns it.
    """
    counts, selection = passport["counts"], passport["selection"]
    title = f"{selection['dataset']}, selection {selection['selection_id']}"
    # Text in JSON is text in YAML. No text of the data can end the block of JSON below.
    header = _HEADER.format(name=json.dumps(title), size=_format_size_category(counts["rows"]))
    columns = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in passport["columns"].items())
    return header + _BODY.format(
        title=title,
        rows=counts["rows"],
        videos=counts["videos"],
        reelsieve=passport["reelsieve"],
        exported_at=passport["exported_at"],
        columns=columns,
        # No line break can begin a block of Markdown, and no licence is a link, an image or HTML.
        origins=_MARKDOWN.sub(r"\\\g<0>", " ".join(explain_origins(passport["origins"]).split())),
        passport=format_passport(passport).replace("`", "\\u0060"),
    )


def _take_file_rows(first: Batch, batches: Iterator[Batch], limit: int) -> Iterator[Batch]:
    """Yield batches until a file has enough rows."""
    yield first
    n = len(first)
    while n < limit and (batch := next(batches, None)) is not None:
        yield batch
        n += len(batch)


def _format_size_category(n: int) -> str:
    """Return the size category of n rows that dataset cards use."""
    for limit, name in ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")):
        if n < limit:
            return name
    return "1M<n<10M" if n < 10_000_000 else "n>10M"
