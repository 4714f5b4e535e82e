"""Random hostile sources for `reelsieve init`, and the captions in them, each with the content of its video."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

SECRET = "SECRET of another folder"
WORDS = (
    "A ball rolls",
    "Ein Ball, gr\u00fcn;",
    'She says "go"',
    "\u7403",
    "\U0001f600 smiles",
    "\u05db\u05d3\u05d5\u05e8",
    "[music] A box",
    "=1+1",
)
KINDS = (".txt", ".json", ".mp4", ".csv", ".jsonl", ".parquet", ".arrow", ".tar", ".tgz", ".md")
BAD_NAMES = (b"half\xff", b"bell\x07", b"esc\x1b[2J", b"rub\x7f")
# Of a tar member's name; none may leave the folder.
BAD_KEYS = ("../../out", "/abs", "a/../../b", "a\\b", "bell\x07", "x" * 220, "d/" * 300 + "deep", "a//b", "half\udcff")
LONG = "x" * 100_001


class Planted(NamedTuple):
    """A caption in a source: the content of its video, None for one that is text only, and some of its own fields."""

    content: bytes | None
    own: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class Source:
    """A source under construction.

    good: captions that must end in the manifest. spoilt: those that may. n_named: how many things must be named as left
    out. may_fail: whether init may refuse the whole.
    """

    random: Random
    folder: Path
    clip: bytes
    good: dict[str, Planted] = field(default_factory=dict)
    spoilt: dict[str, Planted] = field(default_factory=dict)
    n_named: int = 0
    may_fail: bool = False
    n: int = 0

    def name(self) -> str:
        """A name that nothing else has, sometimes in a folder of its own."""
        self.n += 1
        return self.random.choice(("", "", "deep/er/", "a b/")) + f"clip {self.n}"

    def text(self) -> str:
        """A caption that nothing else has."""
        self.n += 1
        return f"{self.random.choice(WORDS)} {self.n}."

    def video(self) -> bytes:
        """A video that nothing else is; all have one length."""
        self.n += 1
        return self.clip + self.n.to_bytes(8, "big")

    def put(self, name: str, content: bytes | str) -> None:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def pick(self, *choices: Callable[[Source], None], most: int = 4) -> None:
        """Do some of these."""
        for _ in range(self.random.randint(0, most)):
            self.random.choice(choices)(self)


# Things that no folder should hold


def _pipe(source: Source) -> None:
    os.mkfifo(source.folder / f"pipe{source.name().rpartition('/')[2]}{source.random.choice(KINDS)}")
    source.n_named += 1


def _socket(source: Source) -> None:
    path = source.folder / f"socket{source.name().rpartition('/')[2]}{source.random.choice(KINDS)}"
    os.mknod(path, stat.S_IFSOCK | 0o600)
    source.n_named += 1


def _link(source: Source) -> None:
    outside = source.folder.parent / "outside"
    kind = source.random.choice(KINDS)
    to = source.random.choice(
        (outside / f"secret{kind}", Path("nowhere"), Path("/dev/zero"), outside, Path(".."), Path("."))
    )
    (source.folder / f"link{source.name().rpartition('/')[2]}{kind}").symlink_to(to)
    source.n_named += 1


def _loop(source: Source) -> None:
    one, other = (f"loop{source.name().rpartition('/')[2]}{source.random.choice(KINDS)}" for _ in range(2))
    (source.folder / one).symlink_to(other)
    (source.folder / other).symlink_to(one)
    source.n_named += 2


def _hidden(source: Source) -> None:
    source.put(f".hidden {source.n}/x.mp4", source.video())
    source.n += 1
    source.n_named += 1


def _other(source: Source) -> None:
    source.put(f"{source.name()}.md", "# Read me")
    source.n_named += 1


def _bad_name(source: Source) -> None:
    source.n += 1
    name = os.fsdecode(source.random.choice(BAD_NAMES)) + str(source.n)
    source.put(f"{name}.mp4", source.video())
    source.put(f"{name}.txt", source.text())
    source.n_named += 2


def _nested(source: Source) -> None:
    source.n += 1
    name = source.random.choice(("d", f"long {'x' * 100}")) + str(source.n)
    where = os.open(source.folder, os.O_RDONLY)
    for _ in range(source.random.randint(50, 1500)):
        os.mkdir(name, dir_fd=where)
        inner = os.open(name, os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = inner
    os.close(os.open("read.me", os.O_CREAT | os.O_WRONLY, dir_fd=where))
    os.close(where)
    source.n_named += 1


STRANGE = (_pipe, _socket, _link, _loop, _hidden, _other, _bad_name, _nested)


# Videos with captions beside them


def beside(source: Source) -> None:
    """Videos with captions beside them."""
    for _ in range(source.random.randint(1, 8)):
        name, text, content = source.name(), source.text(), source.video()
        source.put(name + source.random.choice((".mp4", ".MKV", ".avi")), content)
        source.random.choice((_as_text, _as_json, _as_subtitles, _as_both))(source, name, text, content)
    source.pick(_unreadable, _one_of_a_pair, _table_beside, *STRANGE, most=8)


def _as_text(source: Source, name: str, text: str, content: bytes) -> None:
    source.put(f"{name}.txt", source.random.choice(("", "\ufeff")) + text + source.random.choice(("", "\n", " \r\n")))
    source.good[text] = Planted(content)


def _as_json(source: Source, name: str, text: str, content: bytes) -> None:
    own = {"n": source.random.randint(0, 9), "nested": {"a": [1, None, "b"]}, "score": 0.5}
    other = source.text()
    value, planted = source.random.choice(
        (
            (text, {text: {}}),
            ({"caption": text, "reference": other, **own}, {text: own, other: {}}),
            ([text, {"text": other, **own}], {text: {}, other: own}),
            ({"candidates": {"m": text, "k": {"text": other}}, **own}, {text: own, other: own}),
            ({"references": [text, other], **own}, {text: own, other: own}),
        )
    )
    source.put(f"{name}.json", json.dumps(value))
    source.good |= {text: Planted(content, fields) for text, fields in planted.items()}


def _as_subtitles(source: Source, name: str, text: str, content: bytes) -> None:
    vtt, comma = source.random.choice(((".en.vtt", "."), (".srt", ",")))
    source.put(name + vtt, f"WEBVTT\n\n00:00:00{comma}000 --> 00:00:00{comma}500\n{text}\n")
    source.good[text] = Planted(content)


def _as_both(source: Source, name: str, text: str, content: bytes) -> None:
    reference, own = source.text(), {"n": 1.5, "tags": ["a"]}
    source.put(f"{name}.txt", text)
    source.put(
        f"{name}.json", json.dumps({**own, "caption": source.random.choice((text, "Older.")), "reference": reference})
    )
    source.good |= {text: Planted(content, own), reference: Planted(content)}


def _unreadable(source: Source) -> None:
    """A video whose caption nobody can read, or ingest would refuse."""
    name = source.name()
    source.put(f"{name}.mp4", source.video())
    text = source.random.choice(
        (
            b"",
            b" \n",
            "\u200b".encode(),
            b"caf\xe9",
            b"bell \x07",
            LONG.encode(),
            "A ball.".encode("utf-16"),
            b"nul \x00",
        )
    )
    kind = source.random.choice((".txt", ".json", ".vtt"))
    broken = (
        b"{",
        b"[5]",
        b'{"caption": 5}',
        b'"\\ud800"',
        b"[" * 2000,
        b'{"caption": NaN}',
        b'{"caption": "a", "caption": "b"}',
    )
    times = (b"99999999999:00:00.000 --> 99:99.9\nx", b"00:00.000 --> x")
    source.put(
        name + kind, {".txt": text, ".json": source.random.choice(broken), ".vtt": source.random.choice(times)}[kind]
    )
    source.n_named += 1


def _one_of_a_pair(source: Source) -> None:
    """A caption without a video, which is left out, or a video without a caption, which is kept."""
    name, suffix = source.name(), source.random.choice((".txt", ".mp4"))
    source.put(name + suffix, "alone")
    source.n_named += suffix == ".txt"


def _table_beside(source: Source) -> None:
    source.put(f"{source.name()}.csv", "video,caption\na.mp4,of a table\n")
    source.n_named += 1


# Tables


def table(source: Source) -> None:
    """Tables of all formats, with videos beside them or text only."""
    is_text_only = source.random.random() < 0.3
    for number in range(source.random.randint(1, 3)):
        rows = [_row(source, is_text_only) for _ in range(source.random.randint(1, 12))]
        source.random.choice((_csv, _json_lines, _parquet))(source, f"t{number}", rows)
    if not is_text_only:
        source.pick(_video_alone)
    source.pick(
        _damaged_table,
        _broken_table,
        *(piece for piece in STRANGE if not is_text_only or piece is not _bad_name),
        most=6,
    )


def _row(source: Source, is_text_only: bool) -> dict[str, Any]:
    """A good row; it has the same columns as any other."""
    name, text, reference = source.name(), source.text(), source.text()
    content = None if is_text_only else source.video()
    own = {"n": source.random.randint(0, 99), "f": source.random.random(), "code": f"00{source.n}", "note": "b, c; d|e"}
    cell = name
    if content is not None:
        source.put(f"{name}.mp4", content)
        short = name.rpartition("/")[2]
        cell = source.random.choice(
            (f"{name}.mp4", f"./{name}.mp4", short, f"{short}.mp4", str(source.folder / f"{name}.mp4"))
        )
    source.good |= {text: Planted(content, own), reference: Planted(content)}
    return {"video": cell, "caption": text, "reference": reference, **own}


def _spoil(source: Source, row: dict[str, Any]) -> dict[str, Any]:
    """The row with a fault that costs it, or a value of it."""
    missing: Any = None
    faults: list[tuple[str, Any]] = [
        ("video", "missing.mp4"), ("video", "../../etc/passwd"), ("video", "/etc/passwd"), ("video", missing),
        ("video", "https://ann:secret@x.org/a.mp4"), ("video", "s3://bucket/a.mp4?x=1"), ("video", [1]),
        ("video", 1e308), ("video", "half \ud800"), ("video", "nul \x00"), ("video", "x" * 5000), ("caption", 5),
        ("caption", missing),
        ("caption", " "), ("caption", "bell \x07"), ("caption", "half \ud800"), ("caption", LONG), ("caption", ["", 5]),
        ("caption", "['a' 'b']"), ("caption", {"a": 1}), ("role", "judge"), ("segments", 5), ("segments", [{}]),
        ("system", [1]), ("system", "x" * 600), ("caption_id", {}), ("caption_id", "x" * 600), ("parse_error", "x"),
        ("video_id", [1]), ("video_id", 1e400), ("video_id", "bell \x07"), ("video_id", "x" * 600), ("own", 1e400),
        ("own", "half \ud800"), ("own", {"deep": {"er": "nul \x00"}}),
    ]  # fmt: skip
    column, value = source.random.choice(faults)
    planted = [source.good.pop(text) for text in (row["caption"], row["reference"])]
    source.spoilt |= {text: Planted(planted[0].content) for text in (row["caption"], row["reference"])}
    # Without files any text names a video, and a row with a reference needs no caption.
    is_harmless = (column, value) in (("caption", None), ("caption", " ")) or planted[0].content is None
    source.n_named += not is_harmless
    return {**row, column: value}


def _json_lines(source: Source, name: str, rows: list[dict[str, Any]]) -> None:
    spoilt = [_spoil(source, row) if source.random.random() < 0.4 else row for row in rows]
    lines = [json.dumps(row).replace("Infinity", "1e999") for row in spoilt]
    for _ in range(source.random.randint(0, 2)):
        lines.insert(
            source.random.randint(0, len(lines)),
            source.random.choice(("{broken", "[1]", '{"a": 1, "a": 2}', "\ufeff{")),
        )
        source.n_named += 1
    source.put(f"{name}.jsonl", "\n".join(lines))


def _csv(source: Source, name: str, rows: list[dict[str, Any]]) -> None:
    separator = source.random.choice(",;\t|")
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    writer.writerow([*rows[0], ""])
    source.n_named += 1
    writer.writerows([*row.values(), number] for number, row in enumerate(rows))
    if source.random.random() < 0.5:
        text.write(f'too{separator}few\n"never closed')
        source.n_named += 1
    source.put(f"{name}.csv", text.getvalue())


def _parquet(source: Source, name: str, rows: list[dict[str, Any]]) -> None:
    columns: dict[str, Any] = {column: [row[column] for row in rows] for column in rows[0]}
    columns["picture"] = [b"\x89PNG"] * len(rows)
    source.n_named += 1
    path = source.folder / f"{name}.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=4)


def _video_alone(source: Source) -> None:
    """A video that no row names, which is kept."""
    source.put(f"alone {source.name()}.mp4", source.video())


def _broken_table(source: Source) -> None:
    content = source.random.choice(
        (b"PAR1", b"", b"a,a\n1,2\n", b"one;two\n", b"\xff\xfe\x00", os.urandom(300), b"{}\n")
    )
    source.put(
        f"broken {source.name()}{source.random.choice(('.csv', '.parquet', '.arrow', '.jsonl', '.tsv'))}", content
    )
    source.n_named += 1


def _damaged_table(source: Source) -> None:
    """A table of which some bytes are others."""
    rows = pa.table({"video": ["a", "b"] * 9, "caption": ["damaged"] * 18, "more": [[{"a": 1}], None] * 9})
    suffix, content = source.random.choice((".parquet", ".arrow", ".csv", ".jsonl")), io.BytesIO()
    if suffix == ".parquet":
        pq.write_table(rows, content, use_dictionary=source.random.random() < 0.5)
    elif suffix == ".arrow":
        opened = source.random.choice((pa.ipc.new_stream, pa.ipc.new_file))
        with opened(content, rows.schema) as writer:
            writer.write_table(rows)
    else:
        lines = [json.dumps(row) for row in rows.to_pylist()] if suffix == ".jsonl" else ["video,caption", "a,damaged"]
        content.write("\n".join(lines * 9).encode())
    source.put(f"damaged {source.name()}{suffix}", _damaged(source.random, content.getvalue()))


def _damaged(random: Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(random.randint(1, 20)):
        place = random.randrange(len(data) + 1)
        new = random.choice((b"", random.randbytes(1), random.randbytes(9), b"\xff\xff\xff\x7f", b"\0\0\0\0", b"9999"))
        data[place : place + random.choice((0, 1, 4, 40))] = new
    return bytes(data)


def embedded(source: Source) -> None:
    """A Parquet file that holds the videos, under names that repeat."""
    rows = []
    for _ in range(source.random.randint(1, 10)):
        text, content = source.text(), source.video()
        name = source.random.choice((None, "same.mp4", "a/b.mp4", "no video", f"v{source.n}.avi"))
        rows.append(({"bytes": content, "path": name}, text))
        source.good[text] = Planted(content)
    media = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = source.folder / "data" / "train.parquet"
    path.parent.mkdir()
    pq.write_table(
        pa.table({"video": pa.array([row[0] for row in rows], media), "text": [row[1] for row in rows]}), path
    )
    source.pick(_squatter, *STRANGE)


# Shards


def shards(source: Source) -> None:
    """Tar files, plain and packed."""
    for name in source.random.sample(
        ("a.tar", "a.tar.gz", "b.tgz", "deep/a.tar", "c.tar"), source.random.randint(1, 4)
    ):
        path = source.folder / name
        path.parent.mkdir(exist_ok=True)
        is_plain = name.endswith(".tar")
        with tarfile.open(path, "w" if is_plain else "w:gz") as tar:
            for number in range(source.random.randint(1, 6)):
                # A name that stands twice in a plain tar file means neither member.
                keys = (f"{number:03}", f"train/{number:03}") if is_plain else (f"{number:03}", "000", "train/000")
                _sample(source, tar, source.random.choice(keys))
                source.pick(*(lambda _, add=add: add(source, tar) for add in SPOILT_MEMBERS), most=2)
            if is_plain and source.random.random() < 0.3:
                _twice(source, tar)
    source.pick(_damaged_shard, _broken_shard, _squatter, *STRANGE, most=6)


def _add(tar: tarfile.TarFile, name: str, content: bytes | str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _sample(source: Source, tar: tarfile.TarFile, key: str) -> None:
    text, content = source.text(), source.video()
    own = {"n": source.random.randint(0, 9), "url": "https://x.org/a.mp4"}
    is_json = source.random.random() < 0.5
    members: list[tuple[str, bytes | str]] = [
        (f"{key}.mp4", content),
        (f"{key}.json", json.dumps({"caption": text, **own})) if is_json else (f"{key}.txt", text),
    ]
    source.random.shuffle(members)
    # What separates two samples of one key.
    _add(tar, f"between {source.n}.cls", "1")
    source.n_named += 1
    for member in members:
        _add(tar, *member)
    source.good[text] = Planted(content, own if is_json else {})


def _bad_key(source: Source, tar: tarfile.TarFile) -> None:
    # In a plain tar file any name will do, since nothing is written under it.
    key = source.random.choice(BAD_KEYS)
    source.n_named += not key.endswith("deep") and not _is_plain(tar)
    text, content = source.text(), source.video()
    _add(tar, f"{key}.mp4", content)
    _add(tar, f"{key}.txt", text)
    source.spoilt[text] = Planted(content)


def _two_videos(source: Source, tar: tarfile.TarFile) -> None:
    key = f"two{source.n}"
    for part in ("left", "right"):
        text, content = source.text(), source.video()
        _add(tar, f"{key}.{part}.mp4", content)
        _add(tar, f"{key}.{part}.txt", text)
        source.good[text] = Planted(content)


def _no_caption(source: Source, tar: tarfile.TarFile) -> None:
    key = f"lonely{source.n}" if _is_plain(tar) else source.random.choice(("000", "lonely"))
    source.n += 1
    suffix = source.random.choice(("mp4", "txt"))
    _add(tar, f"{key}.{suffix}", " ")
    source.n_named += suffix == "txt"


def _twice(source: Source, tar: tarfile.TarFile) -> None:
    for _ in range(2):
        text, content = source.text(), source.video()
        _add(tar, "twice.mp4", content)
        _add(tar, "twice.txt", text)
        source.spoilt[text] = Planted(content)
    source.n_named += 2


def _is_plain(tar: tarfile.TarFile) -> bool:
    return str(tar.name).endswith(".tar")


def _no_file(source: Source, tar: tarfile.TarFile) -> None:
    source.n += 1
    member = tarfile.TarInfo(f"special {source.n}.mp4")
    member.type = source.random.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE))
    member.linkname = "/etc/passwd"
    tar.addfile(member)
    source.n_named += 1


def _hole(source: Source, tar: tarfile.TarFile) -> None:
    source.n += 1
    member = tarfile.TarInfo(f"hole {source.n}.mp4")
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(10**13)}
    block = b"1\n0\n0\n".ljust(512, b"\0")
    member.size = len(block)
    tar.addfile(member, io.BytesIO(block))
    source.n_named += 1


def _pickle(source: Source, tar: tarfile.TarFile) -> None:
    source.n += 1
    _add(tar, f"code {source.n}.pyd", b"cposix\nsystem\n(S'true'\ntR.")
    source.n_named += 1


SPOILT_MEMBERS = (_bad_key, _two_videos, _no_caption, _no_file, _hole, _pickle)


def _broken_shard(source: Source) -> None:
    source.n += 1
    path = source.folder / f"broken {source.n}{source.random.choice(('.tar', '.tgz', '.tar.gz'))}"
    kind = source.random.choice(("junk", "bomb", "cut", "liar", "empty"))
    if kind == "bomb":
        with tarfile.open(path, "w:gz") as tar:
            _add(tar, "zeros.mp4", bytes(70 * 2**20))
    elif kind in ("cut", "liar"):
        with tarfile.open(path, "w") as tar:
            text, content = source.text(), source.video()
            _add(tar, "000.mp4", content)
            _add(tar, "000.txt", text)
            source.spoilt[text] = Planted(content)
            if kind == "liar":
                member = tarfile.TarInfo("001.mp4")
                member.size = 10**13
                tar.addfile(member)
        if kind == "cut":
            os.truncate(path, source.random.randint(1, path.stat().st_size - 20 * 512))
    else:
        path.write_bytes(b"" if kind == "empty" else os.urandom(2000))
    source.n_named += 1


def _damaged_shard(source: Source) -> None:
    """A shard of which some bytes are others."""
    content, suffix = io.BytesIO(), source.random.choice((".tar", ".tgz"))
    form = source.random.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=content, mode="w" if suffix == ".tar" else "w:gz", format=form) as tar:
        for name in ("0.mp4", "0.txt", f"{'x' * 120}.mp4", f"{'x' * 120}.txt"):
            _add(tar, name, "damaged")
    source.put(f"damaged {source.name()}{suffix}", _damaged(source.random, content.getvalue()))


def _squatter(source: Source) -> None:
    """What lies already where a video may go."""
    name = source.random.choice(
        ("a/000.mp4", "b/000.mp4", "data/train/same.mp4", "data/train/000001.avi", "a.tar/000.mp4")
    )
    path = source.folder / "videos" / name
    if path.parent.exists():
        return
    kind = source.random.choice(("file", "folder", "pipe", "link", "parent"))
    if kind == "parent":
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.write_text("mine")
        # Every video that belongs below it is left out.
        source.spoilt |= source.good
        source.good.clear()
        source.may_fail = True
        return
    path.parent.mkdir(parents=True)
    if kind == "file":
        path.write_bytes(source.video())
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(source.folder.parent / "outside" / "secret.mp4")


SOURCES: tuple[Callable[[Source], None], ...] = (beside, table, embedded, shards)


def hostile_source(random: Random, folder: Path, clip: bytes) -> Source:
    """A source in a new folder, beside the folder `outside` with what must stay out."""
    outside = folder.parent / "outside"
    if not outside.exists():
        outside.mkdir()
        for kind in KINDS:
            (outside / f"secret{kind}").write_text(SECRET)
    folder.mkdir()
    source = Source(random, folder, clip)
    random.choice(SOURCES)(source)
    return source
