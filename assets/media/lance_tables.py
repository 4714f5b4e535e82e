"""Videos in Lance tables: the version of a table, its columns that hold files, and the bytes of a row.

Package `lance` is imported inside functions, since it is optional and takes half a second. No text of its errors is
repeated, which may hold signatures.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assets.media.address import Address
from assets.media.errors import MediaUnavailable, explain_store_error
from assets.media.file_state import FileState
from assets.media.private_networks import PrivateAddressRefused, is_allowed_address
from assets.media.settings import MediaSettings
from assets.media.store import BLOCK_BYTES
from assets.media.tar_index import MAX_MEMBER_BYTES
from db.spelling import suggest_name

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SUFFIX = ".lance"
_BLOB = "lance.blob.v2"
_NO_READER = "no reader of Lance tables is installed: pip install 'reelsieve[lance]'"
_NO_TABLE = "there is no Lance table: give the path of its folder"
_UNREADABLE = (
    "the table cannot be read: put the complete table there, or upgrade the package pylance if a newer one wrote it"
)
_NO_ANSWER = (
    "the store or the table in it cannot be read: check the network, the credentials in the environment, and whether "
    "the table is complete"
)
_ELSEWHERE = "the table has files outside its own folder: copy the whole table into one"
_OTHER_STORE = "a Lance table is read on this machine and in s3:// stores: put a copy there"
_NO_ROW = (
    "the table has no row of this id: it was deleted, or the table was rewritten without stable row ids, so that the "
    "manifest has to be made again"
)
_NULL = "the row has no file in this column: give the row a file, or take it out of the manifest"
_NAMED_ONLY = "the row only names a file that lies elsewhere: store its bytes in the table"
_TOO_LARGE = f"the file is larger than {MAX_MEMBER_BYTES / 2**30:g} GiB: give it as a file of its own"


def fetch_table_state(place: Path | Address, settings: MediaSettings) -> FileState:
    """Return the present version of a Lance table, as the etag of a state without times. Raises MediaUnavailable where
    the table cannot be opened.
    """
    return FileState(None, etag=_format_version(open_table(place, settings)))


def read_row(place: Path | Address, name: str, settings: MediaSettings) -> Iterator[bytes]:
    """Yield the bytes of a row of a Lance table in blocks, as the newest version of the table has them. name: the
    column and the id of the row, or only the id, as in "video/7" and "7". Raises MediaUnavailable, also where the row
    has no bytes.
    """
    table = open_table(place, settings)
    given, _, row = name.rpartition("/")
    column = _choose_column(table.schema, given)
    with _convert_errors(place):
        cells = table.scanner(columns=[column], filter=f"_rowid = {int(row)}").to_table().column(0)
        if not len(cells):
            raise MediaUnavailable("missing", _NO_ROW)
        if _is_blob(table.schema.field(column)):
            yield from _read_blob(table, column, int(row), cells[0])
        else:
            yield from _read_bytes(cells[0])


def open_table(place: Path | Address, settings: MediaSettings) -> Any:
    """Open the newest version of a Lance table, a `lance.LanceDataset`. Raises MediaUnavailable where there is none to
    be read, and where the table has files outside its own folder.
    """
    try:
        import lance
    except ImportError:
        raise MediaUnavailable("trouble", _NO_READER) from None
    with _convert_errors(place):
        options = {} if isinstance(place, Path) else _choose_store_options(place, settings)
        table = lance.dataset(str(place), storage_options=options)
        is_elsewhere = bool(table.base_paths())
        if isinstance(place, Path):
            # The path that ingest stored has no links, so a link on it was made later.
            is_elsewhere |= place.resolve() != place or _has_links(place, _format_version(table))
        if is_elsewhere:
            raise MediaUnavailable("escape", _ELSEWHERE)
        return table


def list_file_columns(schema: pa.Schema) -> list[str]:
    """List the names of the columns whose cells are files: blobs, and binary columns of any kind."""
    return [field.name for field in schema if _is_blob(field) or str(field.type) in ("binary", "large_binary")]


def _is_blob(field: pa.Field) -> bool:
    """Return whether Lance keeps the cells of a column as blobs, which are read in parts."""
    if getattr(field.type, "extension_name", None) == _BLOB:
        return True
    return (field.metadata or {}).get(b"lance-encoding:blob") == b"true"


def check_size(size_bytes: int) -> None:
    """Raise MediaUnavailable for a file of more bytes than may be held in memory."""
    if size_bytes > MAX_MEMBER_BYTES:
        raise MediaUnavailable("unusable", _TOO_LARGE)


def _choose_column(schema: pa.Schema, given: str) -> str:
    columns = list_file_columns(schema)
    shown = ", ".join(map(repr, columns[:5]))
    if given:
        if given not in columns:
            hint = suggest_name(given, columns, f": it has {shown or 'none'}")
            raise MediaUnavailable("missing", f"the table has no column {given!r} of files{hint}")
        return given
    if not columns:
        raise MediaUnavailable("unusable", "the table has no column of files: give a table that has one")
    if len(columns) > 1:
        raise MediaUnavailable(
            "unusable", f"the table has several columns of files: name one of {shown}, as in #COLUMN/ROW"
        )
    return columns[0]


def _read_blob(table: Any, column: str, row: int, described: Any) -> Iterator[bytes]:
    if (described.as_py() or {}).get("blob_uri"):
        raise MediaUnavailable("escape", _NAMED_ONLY)
    blob = table.take_blobs(column, ids=[row])[0]
    if blob is None:
        raise MediaUnavailable("unusable", _NULL)
    check_size(blob.size())
    with blob:
        while block := blob.read(BLOCK_BYTES):
            yield block


def _read_bytes(cell: Any) -> Iterator[bytes]:
    buffer = cell.as_buffer()
    if buffer is None:
        raise MediaUnavailable("unusable", _NULL)
    check_size(buffer.size)
    for start in range(0, buffer.size, BLOCK_BYTES):
        yield buffer.slice(start, min(BLOCK_BYTES, buffer.size - start)).to_pybytes()


def _format_version(table: Any) -> str:
    """Return a name that no other version has, nor one of a table that was at this place before."""
    version = table.get_version()
    return f"version {version['version']} of {version['timestamp'].isoformat()}"


@lru_cache(maxsize=64)
def _has_links(folder: Path, _version: str) -> bool:
    """Return whether a table has links inside it, which may lead anywhere. A version is looked at once."""
    return any(
        os.path.islink(os.path.join(at, name)) for at, folders, files in os.walk(folder) for name in (*folders, *files)
    )


def _choose_store_options(address: Address, settings: MediaSettings) -> dict[str, str]:
    """Return the options of Lance's own client, which takes the credentials from the environment. Raises
    MediaUnavailable where the environment names a server in a private network that the settings do not allow.
    """
    if address.scheme != "s3":
        raise MediaUnavailable("trouble", _OTHER_STORE)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    parts = urlsplit(endpoint)
    for *_, (host, *_) in socket.getaddrinfo(parts.hostname, parts.port) if parts.hostname else ():
        if not is_allowed_address(str(host), settings.media_private_networks):
            raise explain_store_error(address, PrivateAddressRefused(str(host)))
    patience = f"{settings.media_patience_s:g}s"
    options = {"client_max_retries": "2", "connect_timeout": patience, "timeout": patience}
    return options | ({"aws_endpoint": endpoint, "allow_http": str(parts.scheme == "http").lower()} if endpoint else {})


@contextmanager
def _convert_errors(place: Path | Address) -> Iterator[None]:
    """Raise MediaUnavailable in place of any other error about a table."""
    try:
        yield
    except MediaUnavailable:
        raise
    except Exception as error:
        if "was not found" in str(error):
            raise MediaUnavailable("missing", _NO_TABLE) from None
        if isinstance(place, Path):
            raise MediaUnavailable("unusable", _UNREADABLE) from None
        raise MediaUnavailable("trouble", _NO_ANSWER) from None
