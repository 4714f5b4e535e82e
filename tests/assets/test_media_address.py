"""What a manifest may name outside its folder, and that no credential of an address is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from assets.home.settings import SettingsError, read_settings
from assets.ingest.run import ingest_folder
from assets.media.address import (
    Address,
    AddressRefused,
    hide_address_credentials,
    hide_credentials,
    is_address,
    parse_address,
)
from assets.media.settings import MediaSettings


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("s3://clips/2024/a b+c%20.mp4", Address("s3", "clips", "2024/a b+c%20.mp4")),
        ("S3://Clips/a@b.mp4", Address("s3", "Clips", "a@b.mp4")),
        ("https://Clips.Example:8443/x/a.mp4", Address("https", "clips.example:8443", "x/a.mp4")),
        ("http://[::1]:80/a.mp4", Address("http", "[::1]:80", "a.mp4")),
        ("https://clips.example:8443/a@b.mp4", Address("https", "clips.example:8443", "a@b.mp4")),
        ("gs://clips/a.mp4", Address("gs", "clips", "a.mp4")),
        ("root://news-2024/day/a.mp4", Address("root", "news-2024", "day/a.mp4")),
    ],
)
def test_the_parts_of_an_address(text: str, parts: Address) -> None:
    assert parse_address(text) == parts
    assert parse_address(str(parts)) == parts


SECRETS = [
    "https://ann:hunter2@clips.example/a.mp4",
    "https://hunter2@clips.example/a.mp4",
    "s3://key:hunter2@clips/a.mp4",
    "https://ann:hun/ter2@clips.example/a.mp4",
    "https://clips.example/a.mp4?X-Amz-Signature=hunter2",
    "https://clips.example?sig=hunter2",
    "https://clips.example/a.mp4?b=1&token=hunter2#t=3",
]


@pytest.mark.parametrize("text", SECRETS)
def test_credentials_are_refused_and_never_shown(text: str) -> None:
    assert is_address(text)
    with pytest.raises(AddressRefused) as refused:
        parse_address(text)
    assert "ter2" not in str(refused.value)
    assert "ter2" not in hide_address_credentials(text)


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "ftp://clips.example/a.mp4",
        "simplecache::s3://clips/a.mp4",
        "zip://a.mp4::https://clips.example/a.zip",
        "local:///etc/passwd",
        "memory://a.mp4",
        "data://text",
        "s3://",
        "s3://clips",
        "s3://clips/",
        "s3://clips/folder/",
        "s3://../a.mp4",
        "s3:///a.mp4",
        "https:///a.mp4",
        "https://a b/c.mp4",
        "https://good\\@evil/a.mp4",
        "https://clips.example/a.mp4#t=3",
        "https://clips.example/a\r\nHost: evil.mp4",
        "root://News/a.mp4",
        "root://../a.mp4",
    ],
)
def test_every_other_address_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        parse_address(text)
    assert "\n" not in str(refused.value)


@given(st.text(alphabet="abz:/@?#.%&=[]\\ s3htp", max_size=40))
def test_no_accepted_address_has_room_for_a_credential(text: str) -> None:
    try:
        address = parse_address(f"https://{text}")
    except AddressRefused:
        return
    assert "@" not in address.host
    assert not set("?#") & set(str(address))
    assert parse_address(str(address)) == address


def test_text_that_is_no_address_stays_as_it_is() -> None:
    text = 'a question? (see videos/a@b.mp4, https://clips.example/a.mp4?page=2) key=3 "sig"'
    assert hide_credentials(text) == text
    assert hide_address_credentials("why?.mp4") == "why?.mp4"


def test_nothing_of_a_secret_reaches_the_database(engine: Engine, tmp_path: Path) -> None:
    """Neither in the reason nor in the text of the refused row, however the row is written."""
    lines = [json.dumps({"video_id": f"v{n}", "path": path}) for n, path in enumerate(SECRETS)]
    lines += [
        '{"video_id": "escaped", "path": "https:\\/\\/ann:hunter2@clips.example\\/a.mp4"}',
        '{"video_id": "coded", "path": "https\\u003a//ann:hunter2\\u0040clips.example/a.mp4"}',
        '{"video_id": 7, "path": "https://ann:hunter2@clips.example/a.mp4"}',
        '{"video_id": "cut", "path": "https://ann:hunter2@clips.example/a.mp4"',
        json.dumps({"video_id": "long", "path": f"https://ann:hunter2@clips.example/{'a' * 5000}"}),
    ]
    (tmp_path / "videos.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "captions.jsonl").write_text("")
    assert ingest_folder(engine, tmp_path, "clips").rejected == len(lines)
    with engine.connect() as connection:
        stored = connection.execute(sa.text("SELECT code, reason, raw FROM ingest_reject ORDER BY line")).all()
        assert connection.scalar(sa.text("SELECT count(*) FROM video")) == 0
    assert [row.code for row in stored[: len(SECRETS) + 2]] == ["path_url"] * (len(SECRETS) + 2)
    for row in stored:
        assert "ter2" not in row.reason + row.raw


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("MEDIA_ROOTS", "clips=/mnt", "it is not valid JSON"),
        ("MEDIA_ROOTS", '{"Clips": "/mnt"}', "the name 'Clips'"),
        ("MEDIA_ROOTS", '{"clips": "mnt"}', "the place of clips is a relative path: give an absolute folder"),
        ("MEDIA_ROOTS", '{"clips": "s3://key:hunter2@bucket"}', "without a user, a password"),
        ("MEDIA_ROOTS", '{"clips": "file:///mnt"}', "an address that cannot be a root: give"),
        ("MEDIA_PRIVATE_NETWORKS", "10.0.0.0/8", "it is not valid JSON"),
        ("MEDIA_PRIVATE_NETWORKS", '["10.0.0.1/8"]', "not usable"),
        ("MEDIA_CACHE_GB", "0", "greater than 0"),
        ("VECTORS", "lance", "'postgres' or 'files'"),
        ("VECTORS_FOLDER", "https://host/vectors", "files cannot be written there: give a path, root://NAME/PATH"),
        ("VECTORS_FOLDER", "s3://key:hunter2@bucket/vectors", "it holds a user or a password"),
        ("VECTORS_FOLDER", "root://clips/../vectors", "files cannot be written there"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, wrong: str) -> None:
    monkeypatch.setenv(f"REELSIEVE_{name}", value)
    with pytest.raises(SettingsError, match=wrong) as caught:
        read_settings(MediaSettings)
    assert f"REELSIEVE_{name}" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("", "/home/ada/reelsieve/vectors"),
        ("/mnt/vectors", "/mnt/vectors"),
        ("root://clips/of/frames", "/mnt/clips/of/frames"),
        ("root://news/frames", "s3://bucket/news/frames"),
        ("gs://bucket/frames", "gs://bucket/frames"),
    ],
)
def test_vectors_have_a_folder_in_the_home_a_root_or_a_store(folder: str, place: str) -> None:
    roots = {"clips": "/mnt/clips", "news": "s3://bucket/news/"}
    settings = MediaSettings(home=Path("/home/ada/reelsieve"), media_roots=roots, vectors_folder=folder)
    assert settings.vectors_place == place
    with pytest.raises(SettingsError, match="media root other, which this machine does not have"):
        _ = MediaSettings(vectors_folder="root://other/x").vectors_place
