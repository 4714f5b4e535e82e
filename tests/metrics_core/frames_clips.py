"""Small clips whose every frame shows its own number, and ways to spoil them."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, RATE = 160, 96, 30
N_BITS = 10
X264 = {"bf": "2", "g": "30", "sc_threshold": "0"}


def numbered_picture(number: int) -> NDArray[np.uint8]:
    """Grey noise with the bits of ``number`` as black and white columns of 16 pixels in the upper half."""
    picture = np.random.default_rng(number).integers(96, 160, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    for bit in range(N_BITS):
        picture[: HEIGHT // 2, bit * 16 : bit * 16 + 16] = 255 * (number >> bit & 1)
    return picture


def shown_number(picture: NDArray[np.uint8]) -> int:
    """The number that a decoded picture shows."""
    columns = picture[: HEIGHT // 2].mean(axis=(0, 2)).reshape(N_BITS, 16).mean(axis=1)
    return int(sum(1 << bit for bit in range(N_BITS) if columns[bit] > 128))


def encode(path: Path, n_frames: int = 60, codec: str = "libx264", options: dict[str, str] | None = None) -> Path:
    """A clip at 30 frames per second; H.264 with B-frames and a key frame every 30 unless told otherwise."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = X264 if options is None else options
        for number in range(n_frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(numbered_picture(number), format="rgb24")))
        container.mux(stream.encode())
    return path


def encode_at(
    path: Path,
    ticks: Sequence[int],
    codec: str = "libx264",
    pictures: Sequence[NDArray[np.uint8]] = (),
    rate: int = 25,
    **options: str,
) -> Path:
    """A clip whose pictures begin at these multiples of 1 / rate seconds; one before a longer pause is held. pictures:
    uint8 (H, W, 3) each; by default numbered ones.
    """
    pictures = pictures if len(pictures) else [numbered_picture(number) for number in range(len(ticks))]
    with av.open(str(path), "w", format="asf" if path.suffix == ".wmv" else None) as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width, stream.pix_fmt = *pictures[0].shape[:2], "yuv420p"
        for picture, tick in zip(pictures, ticks, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = tick, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def encode_pictures(
    path: Path, codec: str, pix_fmt: str, pictures: NDArray[np.uint8], rate: int = RATE, **options: str
) -> Path:
    """A clip of these pictures, uint8 (T, H, W, 3)."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.height, stream.width, stream.pix_fmt = *pictures.shape[1:3], pix_fmt
        stream.options = options
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


def write_gif(path: Path, width: int, height: int, n_frames: int) -> Path:
    """A GIF of any size whose frames each draw one pixel: 23 bytes a frame, however large the picture is."""
    header = b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF0, 0, 0) + bytes([0, 0, 0, 255, 255, 255])
    delay = b"\x21\xf9\x04" + struct.pack("<BHB", 4, 4, 0) + b"\x00"
    pixel = b"\x02\x02\x44\x01\x00"
    frames = (delay + b"\x2c" + struct.pack("<HHHHB", i % width, 0, 1, 1, 0) + pixel for i in range(n_frames))
    path.write_bytes(header + b"".join(frames) + b"\x3b")
    return path


def encode_sound(path: Path) -> Path:
    """A second of noise without any picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        noise = np.random.default_rng(0).normal(0, 0.1, (1, 16000)).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(noise, format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 16000, 0, Fraction(1, 16000)
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def remux(
    source: Path, target: Path, first_key_frame: int = 0, lost: range = range(0), last_s: float = 0, **options: str
) -> Path:
    """The packets of ``source`` from its n-th key frame on, without the ``lost`` ones, not decoded. last_s: seconds for
    which the last packet says that it is shown.
    """
    form = "asf" if target.suffix == ".wmv" else None
    with av.open(str(source)) as clip, av.open(str(target), "w", format=form, options=options) as container:
        stream = container.add_stream_from_template(clip.streams.video[0])
        key_frames = -1
        packets = [packet for packet in clip.demux(clip.streams.video[0]) if packet.size]
        if last_s:
            packets[-1].duration = round(last_s / packets[-1].time_base)
        for number, packet in enumerate(packets):
            key_frames += packet.is_keyframe
            if number not in lost and key_frames >= first_key_frame:
                packet.stream = stream
                container.mux(packet)
    return target


def overwrite(path: Path, begin: int, content: bytes) -> Path:
    """Put ``content`` over the bytes of the file from ``begin`` on."""
    whole = bytearray(path.read_bytes())
    whole[begin : begin + len(content)] = content
    path.write_bytes(whole)
    return path


def scribble(path: Path, start: float, length: int) -> Path:
    """Overwrite ``length`` bytes from the share ``start`` of the file on with random ones."""
    return overwrite(path, int(path.stat().st_size * start), random.Random(0).randbytes(length))


def truncate(path: Path, share: float) -> Path:
    """Keep the first ``share`` of the file."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def set_rotation(path: Path, quarter_turns: int) -> Path:
    """Write "turn clockwise so many times" into the header of an MP4 file (matrix of the track, ISO 14496-12)."""
    a, b, c, d = {0: (1, 0, 0, 1), 1: (0, 1, -1, 0), 2: (-1, 0, 0, -1), 3: (0, -1, 1, 0)}[quarter_turns]
    content = bytearray(path.read_bytes())
    matrix = content.index(b"tkhd") + 44
    struct.pack_into(">9i", content, matrix, a << 16, b << 16, 0, c * 65536, d * 65536, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    return path


def cut_start_by_edit_list(path: Path, n_frames: int) -> Path:
    """Tell players of an MP4 file to begin ``n_frames`` later; the packets stay in the file."""
    content = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        time_base = container.streams.video[0].time_base
    assert time_base is not None
    media_time = content.index(b"elst") + 16
    (ticks,) = struct.unpack_from(">i", content, media_time)
    struct.pack_into(">i", content, media_time, ticks + int(n_frames / RATE / time_base))
    path.write_bytes(content)
    return path
