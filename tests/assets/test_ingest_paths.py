"""No path of a manifest leads out of its folder, and every refusal says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingest.paths import PathRejected, resolve_inside


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "pack"
    (inside / "videos").mkdir(parents=True)
    (inside / "videos" / "clip.mp4").write_bytes(b"clip")
    (inside / "..hidden.mp4").write_bytes(b"clip")
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (tmp_path / "pack2").mkdir()
    (tmp_path / "pack2" / "clip.mp4").write_bytes(b"neighbour")
    return inside


@pytest.mark.parametrize(
    "relative", ["videos/clip.mp4", "./videos/clip.mp4", "videos//clip.mp4", "videos/../videos/clip.mp4"]
)
def test_files_inside_resolve(folder: Path, relative: str) -> None:
    assert resolve_inside(folder, relative) == (folder / "videos" / "clip.mp4").resolve()


def test_dots_at_the_start_of_a_name_are_no_escape(folder: Path) -> None:
    assert resolve_inside(folder, "..hidden.mp4").name == "..hidden.mp4"


@pytest.mark.parametrize(
    ("relative", "code"),
    [
        ("http://example.org/clip.mp4", "path_url"),
        ("file:///srv/clip.mp4", "path_url"),
        ("file:videos/clip.mp4", "path_url"),
        ("S3://bucket/clip.mp4", "path_url"),
        ("data:video/mp4;base64,AAAA", "path_url"),
        ("/srv/clip.mp4", "path_absolute"),
        ("//server/share/clip.mp4", "path_absolute"),
        ("\\\\server\\share\\clip.mp4", "path_absolute"),
        ("\\clip.mp4", "path_absolute"),
        ("C:\\clip.mp4", "path_absolute"),
        ("c:clip.mp4", "path_absolute"),
        ("~/clip.mp4", "path_absolute"),
        ("~root/clip.mp4", "path_absolute"),
        ("..", "path_escape"),
        ("../secret.mp4", "path_escape"),
        ("../pack/videos/clip.mp4", "path_escape"),
        ("../pack2/clip.mp4", "path_escape"),
        ("videos/../../secret.mp4", "path_escape"),
        ("./.././secret.mp4", "path_escape"),
        ("..\\secret.mp4", "path_escape"),
        ("videos\\..\\..\\secret.mp4", "path_escape"),
        ("videos/..\\../secret.mp4", "path_escape"),
        ("videos/none.mp4", "file_missing"),
        ("videos/clip.mp4/more.mp4", "file_missing"),
        ("x" * 3000, "file_missing"),
        ("videos/" + "d/" * 4000 + "clip.mp4", "file_missing"),
        ("nul\x00.mp4", "file_missing"),
        ("half\ud83d.mp4", "file_missing"),
        ("videos", "not_a_file"),
        (".", "not_a_file"),
        ("", "not_a_file"),
    ],
)
def test_every_other_path_is_refused(folder: Path, relative: str, code: str) -> None:
    with pytest.raises(PathRejected) as refused:
        resolve_inside(folder, relative)
    assert refused.value.code == code
    assert "'path'" in refused.value.reason


def test_links_out_of_the_folder_are_refused(folder: Path) -> None:
    (folder / "file_link.mp4").symlink_to(folder.parent / "secret.mp4")
    (folder / "folder_link").symlink_to(folder.parent / "pack2")
    (folder / "chain.mp4").symlink_to("file_link.mp4")
    (folder / "dangling_out.mp4").symlink_to(folder.parent / "nothing.mp4")
    for relative in ("file_link.mp4", "folder_link/clip.mp4", "chain.mp4", "dangling_out.mp4"):
        with pytest.raises(PathRejected) as refused:
            resolve_inside(folder, relative)
        assert refused.value.code == "path_escape", relative


def test_climbing_through_a_link_counts_from_where_it_leads(folder: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "shortcut").symlink_to(folder / "deep" / "er")
    (folder / "deep" / "clip.mp4").write_bytes(b"clip")
    assert resolve_inside(folder, "shortcut/../clip.mp4") == (folder / "deep" / "clip.mp4").resolve()


def test_links_inside_the_folder_resolve_to_their_target(folder: Path) -> None:
    (folder / "again.mp4").symlink_to("videos/clip.mp4")
    assert resolve_inside(folder, "again.mp4") == (folder / "videos" / "clip.mp4").resolve()


def test_the_folder_itself_may_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert resolve_inside(link, "videos/clip.mp4") == (folder / "videos" / "clip.mp4").resolve()


def test_loops_and_pipes_are_refused(folder: Path) -> None:
    (folder / "a.mp4").symlink_to("b.mp4")
    (folder / "b.mp4").symlink_to("a.mp4")
    with pytest.raises(PathRejected) as loop:
        resolve_inside(folder, "a.mp4")
    assert loop.value.code == "file_missing"
    os.mkfifo(folder / "pipe.mp4")
    with pytest.raises(PathRejected) as pipe:
        resolve_inside(folder, "pipe.mp4")
    assert pipe.value.code == "not_a_file"


PARTS = st.lists(st.sampled_from(["..", ".", "", "videos", "clip.mp4", "pack", "pack2", "secret.mp4", "~", "C:"]))


@given(parts=PARTS, separator=st.sampled_from(["/", "\\", "/../", "\\..\\"]))
def test_no_combination_of_parts_gets_out(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], separator: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "combinations"
    (root / "pack" / "videos").mkdir(parents=True, exist_ok=True)
    (root / "pack" / "videos" / "clip.mp4").write_bytes(b"clip")
    (root / "secret.mp4").write_bytes(b"secret")
    try:
        resolved = resolve_inside(root / "pack", separator.join(parts))
    except PathRejected:
        return
    assert resolved == (root / "pack" / "videos" / "clip.mp4").resolve()


@given(st.text())
def test_any_text_resolves_or_is_refused(tmp_path_factory: pytest.TempPathFactory, relative: str) -> None:
    with pytest.raises(PathRejected):
        resolve_inside(tmp_path_factory.getbasetemp() / "combinations", "empty/" + relative)
