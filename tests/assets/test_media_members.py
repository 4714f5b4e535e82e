"""Videos inside tar files, on disk, at a web server and in S3: the same bytes as of a file, and nothing else."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.home.settings import read_settings
from assets.ingest.rejects import Code, Reject
from assets.ingest.rows import VideoRow
from assets.ingest.video_columns import MediaAccess, inspect_video, inspect_videos
from assets.media import members, store, tar_index
from assets.media.address import (
    AddressRefused,
    MemberAddress,
    hide_address_credentials,
    parse_address,
    parse_member_address,
)
from assets.media.errors import MediaUnavailable
from assets.media.file_state import FileState
from assets.media.files import hold_ingested_file, read_ingested_part
from assets.media.members import read_range
from assets.media.settings import MediaSettings
from assets.media.store import ObjectStore
from assets.media.tar_index import Member, TarIndex, read_tar_index
from metrics_core.frames import DecodingWorker
from tests.assets.init_sources import shard
from tests.assets.manifests import write_clip
from tests.assets.media_servers import (
    BUCKET,
    LOOPBACK,
    Bucket,
    GoogleBucket,
    Page,
    S3Bucket,
    WebServer,
    google_store,
    s3_store,
    web_server,
)

Look = Callable[..., "SimpleNamespace | Reject"]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """Three clips of five, six and seven frames."""
    folder = tmp_path_factory.mktemp("clips")
    return {f"{n}.avi": write_clip(folder / f"{n}.avi", n_frames=5 + n).read_bytes() for n in range(3)}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, clips: Mapping[str, bytes]) -> Path:
    """A tar file of the clips, which captions precede."""
    members = [
        (name, content) for clip, data in clips.items() for name, content in ((f"{clip}.txt", "A."), (clip, data))
    ]
    return shard(tmp_path_factory.mktemp("packed") / "s.tar", members)


def index_of(content: bytes) -> TarIndex:
    return read_tar_index(io.BytesIO(content), len(content))


def look(folder: Path, path: str, stored: SimpleNamespace | None = None) -> SimpleNamespace | Reject:
    columns = inspect_video(folder, VideoRow(video_id="v", path=path), stored)
    return columns if isinstance(columns, Reject) else SimpleNamespace(key="v", **columns)


def ingested(folder: Path, path: str, stored: SimpleNamespace | None = None) -> SimpleNamespace:
    video = look(folder, path, stored)
    assert isinstance(video, SimpleNamespace), video
    return video


def content(video: SimpleNamespace) -> bytes:
    with hold_ingested_file(video) as held:
        return held.path.read_bytes()


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=300),
            st.binary(max_size=2000),
        ),
        max_size=8,
        unique_by=lambda member: member[0].strip("/"),
    ),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_every_member_is_where_the_index_says(members: list[tuple[str, bytes]], form: int) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    whole = stream.getvalue()
    stream.seek(0)
    index = index_of(whole)
    assert index.damage is None
    with tarfile.open(fileobj=stream) as tar:
        read = {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}  # type: ignore[union-attr]
    assert {name: whole[at : at + size] for name, (at, size) in index.members.items()} == read


def test_members_that_cannot_be_read_are_named_with_the_reason() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind in (("folder", tarfile.DIRTYPE), ("link", tarfile.SYMTYPE), ("pipe", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        for name, data in (("twice", b"1"), ("once", b"22"), ("twice", b"1")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        sparse = tarfile.TarInfo("sparse")
        sparse.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40)}
        tar.addfile(sparse)
        huge = tarfile.TarInfo("huge")
        huge.size = tar_index.MAX_MEMBER_BYTES + 1
        tar.addfile(huge)
    content = stream.getvalue()
    index = read_tar_index(io.BytesIO(content), 1 << 40)
    assert list(index.members) == ["once"]
    assert {name: reason.split(":")[0] for name, reason in index.refused.items()} == {
        "link": "the member is a link or a device",
        "pipe": "the member is a link or a device",
        "twice": "the tar file has several members of this name",
        "sparse": "the member is a sparse file",
        "huge": "the member is larger than 2 GiB",
    }
    assert index_of(content).refused["huge"].startswith("the tar file ends in the middle of the member")


def headers_of(kind: bytes, size: int, times: int = 1) -> bytes:
    info = tarfile.TarInfo("././@Header")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) * times


@pytest.mark.parametrize(
    ("bad", "damage"),
    [
        (headers_of(tarfile.GNUTYPE_LONGNAME, 1 << 33), "a header of more than 64 KiB"),
        (headers_of(tarfile.XHDTYPE, 1 << 33), "a header of more than 64 KiB"),
        (headers_of(tarfile.XHDTYPE, 0, 5000), ""),
        (b"\xff" * 512, "no header at byte 1,024"),
        (b"\xff" * 100, "no header at byte 1,024"),
    ],
)
def test_damage_costs_what_comes_after_it(bad: bytes, damage: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        info = tarfile.TarInfo("good")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"good"))
    index = index_of(stream.getvalue()[:1024] + bad + stream.getvalue()[:1024])
    assert index.members == {"good": Member(512, 4)}
    assert index.damage is not None
    assert damage in index.damage


def with_field(header: bytes, place: int, field: bytes) -> bytes:
    """The header with other bytes at a place, and the checksum that they need."""
    changed = bytearray(header)
    changed[place : place + len(field)] = field
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:512])
    return bytes(changed)


SIZE_FIELD = 124


@pytest.mark.parametrize("field", [b"\xff" * 12, b"-0000000001\0", b"-777\0"])
def test_a_size_field_below_0_ends_the_index(field: bytes, tmp_path: Path) -> None:
    bad = with_field(tarfile.TarInfo("bad.avi").tobuf(), SIZE_FIELD, field)
    content = tarfile.TarInfo("good").tobuf() + bad + bytes(20 * 512)
    index = index_of(content)
    assert index == TarIndex({"good": Member(512, 0)}, {}, "the header at byte 512 states a size below 0")
    (tmp_path / "s.tar").write_bytes(content)
    reject = look(tmp_path, "tar://s.tar#bad.avi")
    assert isinstance(reject, Reject)
    assert reject.code == "file_missing"


def test_a_tar_file_may_end_in_the_map_of_a_sparse_member(tmp_path: Path) -> None:
    sparse = tarfile.TarInfo("holes.avi")
    sparse.type = tarfile.GNUTYPE_SPARSE
    more_follows = with_field(sparse.tobuf(tarfile.GNU_FORMAT), 482, b"\1")
    content = tarfile.TarInfo("good").tobuf() + more_follows
    for end in (b"", bytes(100)):
        assert index_of(content + end) == TarIndex({"good": Member(512, 0)}, {}, "unexpected end of data")
    (tmp_path / "s.tar").write_bytes(content)
    reject = look(tmp_path, "tar://s.tar#holes.avi")
    assert isinstance(reject, Reject)
    assert "before the tar file's damage (unexpected end of data)" in reject.reason


@pytest.mark.parametrize("size", [-1, -511, -512, -1024, -1536, -(1 << 40)])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_size_below_0_does_not_lead_back(size: int, form: int) -> None:
    good, bad = tarfile.TarInfo("good"), tarfile.TarInfo("bad")
    bad.size = size
    if form == tarfile.PAX_FORMAT:
        bad.size, bad.pax_headers = 0, {"size": str(size)}
    index = index_of(good.tobuf() + bad.tobuf(form) + good.tobuf() + bytes(1024))
    assert index.members == {"good": Member(512, 0)}
    assert index.damage is not None


def test_the_map_of_a_sparse_member_is_not_read_on_and_on() -> None:
    info = tarfile.TarInfo("holes")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    in_member = info.tobuf(tarfile.PAX_FORMAT) + b"100000\n" + b"1\n" * 200_000
    more_follows = (
        with_field(headers_of(tarfile.GNUTYPE_SPARSE, 0), 482, b"\1") + (bytes(504) + b"\1" + bytes(7)) * 1000
    )
    for bad in (in_member, more_follows):
        file = io.BytesIO(tarfile.TarInfo("good").tobuf() + bad)
        index = read_tar_index(file, len(file.getvalue()))
        assert index == TarIndex({"good": Member(512, 0)}, {}, "a header of more than 64 KiB")
        assert file.tell() <= 512 + (1 << 16)


@pytest.mark.parametrize("size", [3000, 1 << 62, (1 << 63) - 1, 1 << 64, 1 << 80])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_SPARSE, b"?"])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_size_beyond_the_end_costs_no_member_before(tmp_path: Path, size: int, kind: bytes, form: int) -> None:
    bad = tarfile.TarInfo("bad")
    bad.type, bad.size = kind, size
    path = tmp_path / "s.tar"
    path.write_bytes(tarfile.TarInfo("good").tobuf() + bad.tobuf(form) + bytes(1024))
    with path.open("rb") as file:
        index = read_tar_index(file, path.stat().st_size)
    assert index.members == {"good": Member(512, 0)}
    assert index.damage == "unexpected end of data"
    assert list(index.refused) == ["bad"]


def test_a_header_of_digits_is_not_parsed() -> None:
    digits = b"1" * 32_000
    bad = headers_of(tarfile.XHDTYPE, len(digits)) + digits + bytes(-len(digits) % 512)
    good = tarfile.TarInfo("good").tobuf()
    index = index_of(good + bad + good)
    assert index == TarIndex({"good": Member(512, 0)}, {}, "a header with a number of more than 128 digits")


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["1" * 100, "7" * 124 + ".mp4", "é" + "9" * 124])
def test_names_of_digits_are_read(name: str, form: int) -> None:
    header = tarfile.TarInfo(name).tobuf(form)
    assert index_of(header + bytes(1024)) == TarIndex({name: Member(len(header), 0)})


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=600)), max_size=6), st.integers(0, 30_000)
)
def test_whatever_the_bytes_are_members_lie_inside(packed: Path, damage: list[tuple[int, bytes]], length: int) -> None:
    content = bytearray(packed.read_bytes()[:length])
    for place, other in damage:
        content[place : place + len(other)] = other
    index = index_of(bytes(content))
    assert all(0 <= at <= at + size <= len(content) for at, size in index.members.values())
    assert not index.members.keys() & index.refused.keys()


SIZES = st.sampled_from(
    [-(1 << 40), -1024, -513, -512, -511, -1, 0, 1, 511, 512, 513, 1 << 16, 1 << 33, 1 << 62, 1 << 64]
)
KINDS = st.sampled_from([b"\0", *(bytes([kind]) for kind in b"01234567LKSxgXVDM?")])
FIELDS = st.dictionaries(
    st.sampled_from(["size", "path", "GNU.sparse.size", "GNU.sparse.map", "GNU.sparse.major", "hdrcharset"]),
    st.one_of(SIZES.map(str), st.sampled_from(["0,1", "1", "a", "BINARY", ""])),
    max_size=3,
)


@given(
    st.lists(st.tuples(SIZES, KINDS, FIELDS, st.binary(max_size=20), st.integers(0, 500)), max_size=6),
    st.integers(0, 6000),
)
def test_whatever_the_headers_state_members_lie_inside(
    headers: list[tuple[int, bytes, dict[str, str], bytes, int]], length: int
) -> None:
    content = b""
    for n, (size, kind, fields, other, place) in enumerate(headers):
        info = tarfile.TarInfo(str(n))
        info.size, info.type, info.pax_headers = size, kind, fields
        try:
            header = info.tobuf(tarfile.PAX_FORMAT)
        except ValueError:  # PAX has no field for such a size
            info.pax_headers = {}
            header = info.tobuf(tarfile.GNU_FORMAT)
        *before, own = (header[at : at + 512] for at in range(0, len(header), 512))
        content += b"".join(before) + with_field(own, place, other)[:512] + bytes(n % 3 * 512)
    content = content[:length]
    index = index_of(content)
    assert all(0 <= at <= at + size <= len(content) for at, size in index.members.values())
    assert not index.members.keys() & index.refused.keys()


def test_a_header_that_states_a_huge_size_is_not_read() -> None:
    class Watched(io.BytesIO):
        most = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.most = max(self.most, size if size is not None and size >= 0 else 1 << 60)
            return super().read(size)

    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK):
        file = Watched(headers_of(kind, 1 << 40))
        assert read_tar_index(file, 1 << 41).members == {}
        assert file.most <= 1 << 16


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("tar://a/s.tar#0.mp4", MemberAddress("tar", "a/s.tar", "0.mp4")),
        ("tar:///a/s.TAR#b/#.tar#0.mp4", MemberAddress("tar", "/a/s.TAR", "b/#.tar#0.mp4")),
        ("tar://c#/s.tar#0.mp4", MemberAddress("tar", "c#/s.tar", "0.mp4")),
        ("TAR://HTTPS://Clips.Example/s.tar#0.mp4", MemberAddress("tar", "https://clips.example/s.tar", "0.mp4")),
        ("tar://root://clips/s.tar#a b?.mp4", MemberAddress("tar", "root://clips/s.tar", "a b?.mp4")),
    ],
)
def test_an_address_names_tar_file_and_member(text: str, parsed: MemberAddress) -> None:
    assert parse_member_address(text) == parsed
    assert parse_member_address(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "tar://",
        "tar://s.tar",
        "tar://s.tar#",
        "tar://s.tgz#0.mp4",
        "tar://#0.mp4",
        "tar://ftp://host/s.tar#0.mp4",
        "tar://tar://s.tar#s.tar#0.mp4",
        "tar://https://host/s.tar?key=1#0.mp4",
        "tar://https://ann:secret@host/s.tar#0.mp4",
        "tar://s.tar#0\x07.mp4",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(AddressRefused) as error:
        parse_member_address(text)
    assert "secret" not in str(error.value)
    assert "secret" not in hide_address_credentials(text)


def test_a_member_is_ingested_like_its_file(packed: Path, clips: Mapping[str, bytes], tmp_path: Path) -> None:
    for name, data in clips.items():
        (tmp_path / name).write_bytes(data)
        member, file = ingested(packed.parent, f"tar://s.tar#{name}"), ingested(tmp_path, name)
        assert member.uri == f"tar://{packed}#{name}"
        assert packed.read_bytes()[member.member_offset :][: member.size_bytes] == data
        same = ("content_sha256", "size_bytes", "duration_s", "fps", "n_frames", "width", "height", "codec", "status")
        assert [getattr(member, column) for column in same] == [getattr(file, column) for column in same]
        assert content(member) == data
        with DecodingWorker() as worker, hold_ingested_file(member) as held, hold_ingested_file(file) as own:
            frames, expected = worker.read_frames(held.path, every=1), worker.read_frames(own.path, every=1)
        assert np.array_equal(frames.pixels, expected.pixels)
        assert np.array_equal(frames.times_s, expected.times_s)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_what_is_held_is_gone_afterwards(packed: Path) -> None:
    video = ingested(packed.parent, "tar://s.tar#0.avi")
    before = open_files()
    with hold_ingested_file(video) as held:
        assert held.path.stat().st_size == video.size_bytes
        assert os.path.realpath(held.path).startswith("/memfd:"), "nothing on a disk"
    other = SimpleNamespace(**{**vars(video), "content_sha256": bytes(32)})
    with pytest.raises(MediaUnavailable, match="the file has changed since it was ingested"):
        content(other)
    assert open_files() == before
    assert not held.path.exists()


@pytest.fixture
def own(packed: Path, tmp_path: Path) -> Path:
    """A copy of the tar file that a test may change."""
    path = tmp_path / "own" / "s.tar"
    path.parent.mkdir()
    path.write_bytes(packed.read_bytes())
    return path


def test_a_rewritten_tar_file_makes_its_rows_stale_where_the_content_changed(
    own: Path, clips: Mapping[str, bytes]
) -> None:
    before = {name: ingested(own.parent, f"tar://s.tar#{name}") for name in clips}
    shard(own, [("2.avi", clips["2.avi"]), ("1.avi", clips["0.avi"])])
    assert content(before["2.avi"]) == clips["2.avi"], "the same content at another place"
    with pytest.raises(MediaUnavailable, match="the file has changed since it was ingested"):
        content(before["1.avi"])
    with pytest.raises(MediaUnavailable, match=r"no member of this name.*ingest the folder of video v again"):
        content(before["0.avi"])
    moved = ingested(own.parent, "tar://s.tar#2.avi", before["2.avi"])
    assert moved.member_offset != before["2.avi"].member_offset
    assert moved.content_sha256 == before["2.avi"].content_sha256
    changed = ingested(own.parent, "tar://s.tar#1.avi", before["1.avi"])
    assert (changed.n_frames, changed.content_sha256) == (5, hashlib.sha256(clips["0.avi"]).digest())
    assert content(changed) == clips["0.avi"]
    own.unlink()
    with pytest.raises(MediaUnavailable, match="no such file or directory"):
        content(changed)


def test_an_unchanged_tar_file_is_not_read(own: Path, clips: Mapping[str, bytes]) -> None:
    video = ingested(own.parent, "tar://s.tar#1.avi")
    state = own.stat()
    own.chmod(0o600)  # changes no content
    os.utime(own, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert ingested(own.parent, "tar://s.tar#1.avi", video).content_sha256 == video.content_sha256
    known = ingested(own.parent, "tar://s.tar#1.avi")
    assert (
        ingested(own.parent, "tar://s.tar#1.avi", SimpleNamespace(**{**vars(known), "codec": "kept"})).codec == "kept"
    )


def test_bad_members_are_refused_in_one_sentence_and_the_others_stay(own: Path, clips: Mapping[str, bytes]) -> None:
    members = [*clips.items(), ("1.avi", clips["1.avi"]), ("text.avi", b"no video"), ("cut.avi", clips["2.avi"])]
    shard(own, members)
    with tarfile.open(own) as tar:
        cut = tar.getmember("cut.avi").offset_data
    own.write_bytes(own.read_bytes()[: cut + 700])
    expected: dict[str, tuple[Code, str]] = {
        "1.avi": ("not_a_file", "the tar file has several members of this name: pack it again with a name for each"),
        "cut.avi": ("not_a_file", "the tar file ends in the middle of the member: put the complete tar file there"),
        "text.avi": ("not_a_video", "it is not a video container"),
        "9.avi": ("file_missing", "there is no such member before the tar file's damage (unexpected end of data)"),
    }
    for name, (code, reason) in expected.items():
        reject = look(own.parent, f"tar://s.tar#{name}")
        assert isinstance(reject, Reject)
        assert reject.code == code
        assert reject.reason.startswith(f"field 'path' is 'tar://s.tar#{name}': {reason}")
    assert [ingested(own.parent, f"tar://s.tar#{name}").n_frames for name in ("0.avi", "2.avi")] == [5, 7]


def test_tar_files_lie_in_the_folder_or_below_a_root(
    packed: Path, tmp_path: Path, clips: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "manifest"
    folder.mkdir()
    (folder / "link.tar").symlink_to(packed)
    cases: dict[str, Code] = {
        f"tar://{packed}#0.avi": "path_absolute",
        f"tar://../{packed.parent.name}/s.tar#0.avi": "path_escape",
        "tar://link.tar#0.avi": "path_escape",
        "tar://none.tar#0.avi": "file_missing",
        "tar://root://clips/s.tar#0.avi": "media_unavailable",
        "tar://ftp://host/s.tar#0.avi": "path_url",
    }
    for path, code in cases.items():
        reject = look(folder, path)
        assert isinstance(reject, Reject), path
        assert reject.code == code
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", f'{{"clips": "{packed.parent}"}}')
    by_root = ingested(folder, "tar://root://clips/s.tar#0.avi")
    assert by_root.uri == "tar://root://clips/s.tar#0.avi"
    assert ingested(folder, f"tar://{packed}#0.avi").uri == f"tar://{packed}#0.avi"
    assert content(by_root) == clips["0.avi"]


def put_a_link_in_place(path: Path) -> None:
    path.rename(path.with_name("other.tar"))
    path.symlink_to("other.tar")


def put_a_folder_link_in_place(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.symlink_to("elsewhere")


def put_a_pipe_in_place(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_a_circle_in_place(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (put_a_link_in_place, r"the path leads to .*other\.tar through a link made since it was ingested"),
        (put_a_folder_link_in_place, r"the path leads to .*elsewhere.* through a link made since it was ingested"),
        (put_a_pipe_in_place, "it is no longer a regular file"),
        (put_a_circle_in_place, "(the path leads nowhere|too many levels of symbolic links)"),
        (Path.unlink, "no such file or directory"),
    ],
)
def test_what_takes_the_place_of_a_tar_file_is_not_opened(own: Path, put: Callable[[Path], None], reason: str) -> None:
    video = ingested(own.parent, "tar://s.tar#0.avi")
    put(own)
    with pytest.raises(MediaUnavailable, match=f"{reason}.*: put the file back or ingest the folder of video v"):
        content(video)


@pytest.mark.parametrize("target", ["blobs/abc", "x.tar#y/s.tar", "bell\x07/s.tar"])
def test_a_tar_file_whose_own_path_no_address_can_name_is_refused(packed: Path, tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    path.parent.mkdir()
    path.write_bytes(packed.read_bytes())
    (tmp_path / "s.tar").symlink_to(path)
    reject = look(tmp_path, "tar://s.tar#0.avi")
    assert isinstance(reject, Reject)
    assert reject.code == "not_a_file"
    assert reject.reason.startswith("field 'path' is 'tar://s.tar#0.avi': the path of the tar file, with links")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[WebServer, None, None]:
    pytest.importorskip("aiohttp", reason="the extra `http` is not installed")
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", LOOPBACK)
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE", str(tmp_path / "cache"))
    with web_server() as server:
        yield server


def test_a_web_server_is_asked_for_ranges(
    server: WebServer, packed: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    server.pages["/s.tar"] = Page(packed.read_bytes(), headers={"ETag": '"one"'}, ranges="honest")
    address = f"tar://{server.url}/s.tar#1.avi"
    video = ingested(tmp_path, address)
    assert (video.uri, video.etag, video.n_frames) == (address, '"one"', 6)
    asked = len(server.asked)
    assert content(video) == clips["1.avi"]
    assert server.asked[asked:] == ["GET /s.tar"], "one range"
    assert ingested(tmp_path, address, video) == video
    assert server.asked[asked + 1 :] == ["HEAD /s.tar"], "the etag shows that nothing changed"
    assert not (tmp_path / "cache").exists(), "nothing is copied to a disk"
    server.pages["/s.tar"] = Page(shard(tmp_path / "n.tar", [("1.avi", clips["0.avi"])]).read_bytes(), ranges="honest")
    with pytest.raises(MediaUnavailable, match="the file has changed since it was ingested"):
        content(video)
    assert ingested(tmp_path, address, video).content_sha256 == hashlib.sha256(clips["0.avi"]).digest()


def test_an_empty_member_is_no_video_wherever_it_is(server: WebServer, tmp_path: Path) -> None:
    packed = shard(tmp_path / "s.tar", [("0.avi", b""), ("1.avi", b"1")])
    server.pages["/s.tar"] = Page(packed.read_bytes(), headers={"ETag": '"one"'}, ranges="honest")
    rejects = [look(tmp_path, f"tar://{tar}#0.avi") for tar in ("s.tar", f"{server.url}/s.tar")]
    assert [reject.code for reject in rejects if isinstance(reject, Reject)] == ["not_a_video"] * 2
    asked = len(server.asked)
    read_range(parse_address(f"{server.url}/s.tar"), Member(512, 0), read_settings(MediaSettings), pytest.fail)
    assert len(server.asked) == asked


@pytest.mark.parametrize(("limit", "n_read"), [("MAX_MEMBERS", [1, 1, 0, 1, 1]), ("_MOST_TARS", [1, 1, 0, 0, 1])])
def test_tar_files_are_forgotten_by_number_and_members(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, n_read: list[int]
) -> None:
    monkeypatch.setattr(members, limit, 3 if limit == "MAX_MEMBERS" else 2)
    body = shard(tmp_path / "s.tar", [("0.avi", b"0"), ("1.avi", b"1")]).read_bytes()
    settings, read = read_settings(MediaSettings), []
    for name in ("a", "b", "a", "b", "c"):
        server.pages[f"/{name}.tar"] = Page(body, headers={"ETag": '"one"'}, ranges="honest")
        address = parse_address(f"{server.url}/{name}.tar")
        state = ObjectStore(settings).fetch_state(address)
        asked = len(server.asked)
        assert list(members.load_tar_index(address, state, settings).members) == ["0.avi", "1.avi"]
        read.append(len(server.asked) - asked)
    assert read == n_read


def test_the_headers_of_a_tar_file_are_read_once_for_rows_in_any_order(server: WebServer, tmp_path: Path) -> None:
    body = shard(tmp_path / "s.tar", [("0.avi", b"0"), ("1.avi", b"1")]).read_bytes()
    server.pages.update({f"/{n}.tar": Page(body, headers={"ETag": '"one"'}, ranges="honest") for n in range(40)})
    rows = [
        VideoRow(video_id=f"{n}/{member}", path=f"tar://{server.url}/{n}.tar#{member}.avi")
        for member in (1, 0, 2)
        for n in range(40)
    ]
    rows.insert(50, VideoRow(video_id="text", path=None))
    columns = inspect_videos(tmp_path, rows, {})
    # The headers and two members; a thread that waits while 32 other tar files go by reads the headers again.
    assert 3 * 40 <= sum(question.startswith("GET") for question in server.asked) < 3 * 40 + 8
    text = columns.pop(50)
    assert isinstance(text, dict)
    assert text["status"] == "text_only"
    codes = [reject.code for reject in columns if isinstance(reject, Reject)]
    assert codes == ["not_a_video"] * 80 + ["file_missing"] * 40


@pytest.mark.parametrize("folder", ["", "a" * 120 + "/"])
def test_a_tar_file_rewritten_with_its_size_needs_no_etag(
    server: WebServer, clips: Mapping[str, bytes], tmp_path: Path, folder: str
) -> None:
    members = [(f"{folder}{name}", data.ljust(max(map(len, clips.values())), b"\0")) for name, data in clips.items()]
    whole = [shard(tmp_path / "s.tar", order).read_bytes() for order in (members, members[::-1])]
    renamed = shard(tmp_path / "s.tar", [(f"{name[:-5]}9.avi", data) for name, data in members[:1]] + members[1:])
    names = [name for name, _ in members]
    for n, content_now in enumerate([*whole, renamed.read_bytes(), whole[0]]):
        server.pages["/s.tar"] = Page(content_now, ranges="honest")
        for name, data in members:
            found = look(tmp_path, f"tar://{server.url}/s.tar#{name}")
            if n == 2 and name == names[0]:
                assert isinstance(found, Reject)
                assert "no member of this name" in found.reason
            else:
                assert isinstance(found, SimpleNamespace)
                assert found.content_sha256 == hashlib.sha256(data).digest()
        if n == 2:
            new = ingested(tmp_path, f"tar://{server.url}/s.tar#{folder}9.avi")
            assert new.content_sha256 == hashlib.sha256(members[0][1]).digest()


@pytest.mark.parametrize(
    ("page", "code", "reason"),
    [
        ({}, "media_unavailable", "the server sends only whole files"),
        ({"ranges": "shifted"}, "media_unavailable", "the server sent other bytes than it was asked for"),
        ({"ranges": "short"}, "media_unavailable", "the server sent other bytes than it was asked for"),
        ({"ranges": "honest", "announced": 2000}, "file_missing", "unexpected end of data"),
        ({"status": 404}, "file_missing", "there is no such object"),
        ({"status": 403}, "media_unavailable", "no permission"),
    ],
)
def test_servers_that_lie_cost_their_own_rows(
    server: WebServer, packed: Path, page: dict[str, Any], code: Code, reason: str, tmp_path: Path
) -> None:
    server.pages["/s.tar"] = Page(packed.read_bytes(), headers={"ETag": '"lie"'}, **page)
    reject = look(tmp_path, f"tar://{server.url}/s.tar#1.avi")
    assert isinstance(reject, Reject)
    assert (reject.code, reason in reject.reason) == (code, True), reject


def test_a_server_that_begins_to_lie_gives_no_other_bytes(server: WebServer, packed: Path, tmp_path: Path) -> None:
    server.pages["/s.tar"] = Page(packed.read_bytes(), headers={"ETag": '"one"'}, ranges="honest")
    video = ingested(tmp_path, f"tar://{server.url}/s.tar#1.avi")
    for lie in ({}, {"ranges": "shifted"}, {"ranges": "short"}, {"status": 500}):
        server.pages["/s.tar"] = Page(packed.read_bytes(), headers={"ETag": '"one"'}, **lie)  # type: ignore[arg-type]
        with pytest.raises(MediaUnavailable):
            content(video)
    inverted = bytes(byte ^ 255 for byte in packed.read_bytes())
    server.pages["/s.tar"] = Page(inverted, headers={"ETag": '"one"'}, ranges="honest")
    with pytest.raises(MediaUnavailable):
        content(video)


@pytest.mark.parametrize("part", [Member(512, 100), None])
@pytest.mark.parametrize("stated", ['"one"', '"two"', None])
def test_bytes_of_another_object_than_was_asked_for_are_refused(
    server: WebServer, packed: Path, stated: str | None, part: Member | None
) -> None:
    content = packed.read_bytes()
    server.pages["/s.tar"] = Page(content, headers={"ETag": stated} if stated else {}, ranges="honest")
    whole, address = ObjectStore(read_settings(MediaSettings)), parse_address(f"{server.url}/s.tar")
    blocks: list[bytes] = []
    asked = FileState(len(content), etag='"one"')
    if stated == '"one"':
        whole.fetch(address, blocks.append, asked, part)
        expected = content if part is None else content[512:612]
        assert (b"".join(blocks), len(server.asked)) == (expected, 1), "the answer has the etag"
        return
    with pytest.raises(MediaUnavailable, match="changed"):
        whole.fetch(address, blocks.append, asked, part)


def test_a_store_is_asked_once_for_a_tar_file_and_once_for_each_member(
    server: WebServer, packed: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    server.pages["/s.tar"] = Page(packed.read_bytes(), headers={"ETag": '"one"'}, ranges="honest")
    rows = [VideoRow(video_id=name, path=f"tar://{server.url}/s.tar#{name}") for name in clips]
    access = MediaAccess()
    assert all(isinstance(inspect_video(tmp_path, row, None, access), dict) for row in rows)
    members_asked = [asked for asked in server.ranges if asked]
    # The tar file is so small that one request has all its headers.
    assert (len(server.ranges) - len(members_asked), len(members_asked)) == (1, 1 + len(rows))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Generator[S3Bucket, None, None]:
    pytest.importorskip("s3fs", reason="the extra `s3` is not installed")
    with s3_store(tmp_path_factory.mktemp("cache")) as bucket:
        yield bucket


def test_no_more_is_read_of_an_s3_server_that_ignores_ranges(
    server: WebServer, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs", reason="the extra `s3` is not installed")
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    store._make_file_system.cache_clear()
    # A client that reads all of it sees that it breaks off.
    server.pages["/bucket/s.tar"] = Page(packed.read_bytes() + bytes(1 << 20), announced=1 << 40)
    settings, address = read_settings(MediaSettings), parse_address("s3://bucket/s.tar")
    with pytest.raises(MediaUnavailable, match="the server sent other bytes than it was asked for"):
        read_range(address, Member(512, 1000), settings, pytest.fail)
    server.pages["/bucket/s.tar"] = Page(packed.read_bytes(), ranges="honest")
    blocks: list[bytes] = []
    read_range(address, Member(512, 1000), settings, blocks.append)
    assert b"".join(blocks) == packed.read_bytes()[512:1512]
    store._make_file_system.cache_clear()


@pytest.fixture
def google_bucket(tmp_path: Path) -> Generator[GoogleBucket, None, None]:
    pytest.importorskip("gcsfs", reason="the extra `gs` is not installed")
    with google_store(tmp_path / "cache") as bucket:
        yield bucket


@pytest.mark.slow
@pytest.mark.parametrize("store_fixture", ["bucket", "google_bucket"])
def test_members_of_a_tar_file_in_a_store(
    store_fixture: str, request: pytest.FixtureRequest, packed: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    bucket: Bucket = request.getfixturevalue(store_fixture)
    bucket.put("day/s.tar", packed.read_bytes())
    for name, data in clips.items():
        video = ingested(tmp_path, f"tar://{bucket.scheme}://{BUCKET}/day/s.tar#{name}")
        assert content(video) == data
        assert ingested(tmp_path, video.uri, video) == video
        assert read_ingested_part(video, 10, 90) == data[10:100]
    bucket.put("day/s.tar", shard(tmp_path / "n.tar", [("x.txt", "x" * 5000), (name, data)]).read_bytes())
    assert read_ingested_part(video, 10, 90) is None, "another tar file"
    assert content(video) == data, "the same content at another place"
    assert ingested(tmp_path, video.uri, video).member_offset != video.member_offset
    bucket.delete("day/s.tar")
    with pytest.raises(MediaUnavailable, match="there is no such object"):
        content(video)
