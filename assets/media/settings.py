"""Settings of where this machine finds media, read from the environment when a file is needed."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from assets.home.folder import find_home
from assets.home.settings import PREFIX, SettingsError
from assets.media.address import AddressRefused, parse_address
from metrics_core.child_processes import locate_path

_ROOT_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class MediaSettings(BaseSettings):
    """Files on this machine: media roots, private networks, the cache, decoders, and files of vectors. No score depends
    on them, except that a vector in a file may have half precision.

    A field X is the variable REELSIEVE_X.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    home: Path = Field(default_factory=find_home)
    identity: Literal["sha256", "etag"] = Field(
        default="sha256",
        description="by what ingest recognises new videos: the hash of all bytes, or etag and size in the store (on a "
        "disk, size and time), of which only a header is read",
    )
    media_roots: dict[str, str] = Field(
        default={}, description='folders or URLs by name, as JSON: {"clips": "/mnt/clips", "news": "s3://bucket/news"}'
    )
    media_private_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        default=(), description='private networks that videos may come from, as JSON: ["10.2.0.0/16"]'
    )
    media_cache: Path | None = Field(
        default=None, description="folder for copies of remote videos; empty: `media` in the home folder"
    )
    media_patience_s: float = Field(
        default=30.0, gt=0, description="seconds that a server may take to answer, and to send each MiB of a file"
    )
    media_cache_gb: float = Field(
        default=20.0, gt=0, description="the most space that copies of remote videos may take, in 10^9 bytes"
    )

    decoders: int | None = Field(
        default=None,
        ge=1,
        description="videos decoded at once; default: the cores for facts, the cores per GPU (or half) for frames",
    )

    vectors: Literal["postgres", "files"] = Field(
        default="postgres", description="where new vectors of texts and frames go: the database, or Parquet files"
    )
    vectors_folder: str = Field(
        default="",
        description="folder of these files: a path, root://NAME/PATH, s3:// or gs://; empty: `vectors` in the home",
    )

    @field_validator("media_roots")
    @classmethod
    def _check_places(cls, roots: dict[str, str]) -> dict[str, str]:
        for name, place in roots.items():
            if not _ROOT_NAME.fullmatch(name):
                raise ValueError(
                    f"the name {name!r} must begin with a small letter and have only small letters, digits, _ and -"
                )
            if not (_is_store(place) if "://" in place else Path(place).is_absolute()):
                fault = "an address that cannot be a root" if "://" in place else "a relative path"
                raise ValueError(
                    f"the place of {name} is {fault}: give an absolute folder, or an s3://, gs://, https:// or http:// "
                    "address without a user, a password, ? or #"
                )
        return roots

    @field_validator("vectors_folder")
    @classmethod
    def _check_folder(cls, folder: str) -> str:
        if "://" in folder:
            try:
                address = parse_address(folder)
            except AddressRefused as error:
                raise ValueError(str(error)) from None
            if address.scheme not in ("s3", "gs", "root") or ".." in address.path.split("/"):
                raise ValueError("files cannot be written there: give a path, root://NAME/PATH, s3:// or gs://")
        return folder

    @property
    def vectors_place(self) -> str:
        """The folder of files of vectors as an absolute path, or as an address of a store. Raises SettingsError for a
        media root that the settings do not have.
        """
        folder = self.vectors_folder
        if folder.startswith("root://"):
            address = parse_address(folder)
            if address.host not in self.media_roots:
                raise SettingsError(
                    f"REELSIEVE_VECTORS_FOLDER names media root {address.host}, which this machine does not have: name "
                    "its place in REELSIEVE_MEDIA_ROOTS"
                )
            folder = f"{self.media_roots[address.host].rstrip('/')}/{address.path}"
        return folder if "://" in folder else str(locate_path(folder or self.home / "vectors").resolve())

    @property
    def cache_folder(self) -> Path:
        """The folder of copies as an absolute path: `media_cache`, by default `media` in the home folder."""
        return locate_path(self.media_cache or self.home / "media").resolve()

    @property
    def cache_bytes(self) -> int:
        """The most bytes that the copies in the cache may take together."""
        return int(self.media_cache_gb * 1e9)


def _is_store(place: str) -> bool:
    try:
        return parse_address(f"{place.rstrip('/')}/x").scheme != "root"
    except AddressRefused:
        return False
