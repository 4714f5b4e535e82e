"""Values that another tool gave to a clip or caption: own fields of a manifest, and rows of table `vectors`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

from assets.ingest import hygiene
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rows import ORIGIN_FIELDS
from assets.new_manifest.findings import Findings, Reason


def collect_tool_fields(
    kind: Literal["video", "caption"],
    measured: Mapping[str, Any],
    findings: Findings,
    where: str,
    named: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the numbers, texts and booleans among a tool's values as own fields of a row, by name; those inside
    objects have both names, joined by `_`. Lists, values that ingest would refuse, names of fields that a manifest
    defines, and names that another value has already are left out with the reason in `findings`.

    Fields of a video's origin are kept where they are valid.

    kind: of the row. where: how people find it. named: the own fields that name the tool; they come first.
    """
    kept: dict[str, Any] = {**named}
    for name, value in _flatten(measured):
        if value is None:
            continue
        if isinstance(value, list):
            findings.leave_out(Reason.LIST_OF_TOOL, where, field=name)
        elif name in kept:
            findings.leave_out(Reason.FIELD_TWICE, where, field=name)
        elif name in ORIGIN_FIELDS:
            if findings.accept_row("video", {"video_id": "v", name: value}, f"{where}: {name}"):
                kept[name] = value
        elif name in MANIFEST_TABLES[kind].row_model.model_fields:
            findings.leave_out(Reason.FIELD_LIKE_MANIFEST, where, field=name)
        elif (fault := hygiene.find_fault({name: value})) is not None:
            findings.leave_out_refused("value", fault.code, f"{where}: {name}")
        else:
            kept[name] = value
    return kept


def build_vector_row(
    video_id: str, encoder: str, vector: object, findings: Findings, where: str
) -> dict[str, object] | None:
    """Build the row of table `vectors` for a video, with no more digits than single precision has. Where ingest would
    refuse it by itself, return None and count it as left out with the reason. vector: what the tool wrote, of any type.
    where: how people find it.
    """
    if isinstance(vector, list):
        vector = [float(f"{number:.9g}") if isinstance(number, float) else number for number in vector]
    row = {"video_id": video_id, "encoder": encoder, "vector": vector}
    return row if findings.accept_row("vector", row, where) else None


def _flatten(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _flatten(part, f"{before}{name}_")
        else:
            yield f"{before}{name}", part
