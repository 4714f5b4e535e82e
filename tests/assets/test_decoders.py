"""How many decoders a machine gets, and what is written where its memory does not hold them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assets.home.settings import SettingsError
from assets.media.decoders import (
    choose_decoder_pool,
    count_cores,
    count_cores_per_encoder,
    count_held_bytes,
    explain_memory,
    limit_decoders,
    read_free_memory,
)
from db.evidence.frames import StoredVideo
from metrics_core.frames.memory import FACT_MODELS_BYTES, PROCESS_BYTES
from metrics_core.frames.pool import DecoderPool


def video(key: str, width: int | None = 320, height: int | None = 240) -> StoredVideo:
    return StoredVideo(1, key, f"/v/{key}", 1, None, None, None, None, None, b"", 1.0, 30, width, height)


def test_the_setting_decides_and_else_the_default_up_to_the_number_of_videos(monkeypatch: pytest.MonkeyPatch) -> None:
    videos = [video(str(number)) for number in range(5)]
    monkeypatch.delenv("REELSIEVE_DECODERS", raising=False)
    assert [choose_decoder_pool(n, videos, print).n for n in (1, 3, 64)] == [1, 3, 5]
    monkeypatch.setenv("REELSIEVE_DECODERS", "2")
    assert choose_decoder_pool(64, videos, print).n == 2
    assert choose_decoder_pool(64, [], print).n == 1
    monkeypatch.setenv("REELSIEVE_DECODERS", "0")
    with pytest.raises(SettingsError, match="REELSIEVE_DECODERS is not usable: input should be greater than or equal"):
        choose_decoder_pool(64, videos, print)


def test_too_many_decoders_are_named_before_any_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_DECODERS", "10000")
    lines: list[str] = []
    # As many pictures of this size take 22 TB.
    pool = choose_decoder_pool(1, [video("film", 8192, 4352)] * 10_000, lines.append)
    assert [line.partition(" decode")[2].partition(" at once")[0] for line in lines] in (
        ["rs instead of 10000 can decode frames of 8192 x 4352"],
        ["r instead of 10000 can decode frames of 8192 x 4352"],
    )
    assert pool.n * 60 * 8192 * 4352 <= max(pool.memory_bytes, 60 * 8192 * 4352)


def test_decoders_that_hold_models_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_DECODERS", "10000")
    with_models = PROCESS_BYTES + FACT_MODELS_BYTES
    plain, loaded = (
        choose_decoder_pool(1, [video("film")] * 10_000, lambda _: None, with_models=models) for models in (False, True)
    )
    assert loaded.n <= plain.n < 10_000
    # Of this picture, 20 copies of three bytes a pixel are less than the 20 MiB that remain.
    four = DecoderPool(4, 4 * (with_models + (20 << 20)))
    assert explain_memory(four, [video("film")], with_models) is None
    line = explain_memory(DecoderPool(5, four.memory_bytes), [video("film")], with_models)
    assert line is not None
    assert line.startswith("4 decoders instead of 5 can decode frames of 320 x 240 at once")


def test_the_memory_of_decoders_is_not_that_of_videos() -> None:
    picture, videos = 60 * 320 * 240, [video("small"), video("film", 1920, 1080)]
    # Three decoders have room for a small picture, and for a film if two of them wait.
    memory = 3 * (PROCESS_BYTES + picture) + 1
    assert limit_decoders(DecoderPool(64, memory), videos) == DecoderPool(3, 3 * picture + 1)
    assert limit_decoders(DecoderPool(2, memory), videos) == DecoderPool(2, PROCESS_BYTES + 3 * picture + 1)
    assert limit_decoders(DecoderPool(64, 5), videos) == DecoderPool(1, 0)
    assert limit_decoders(DecoderPool(1, memory), []) == DecoderPool(1, memory - PROCESS_BYTES)


def test_files_inside_others_are_held_in_memory() -> None:
    addresses = ("/v/1.mp4", "s3://b/1.mp4", "tar:///v/1.tar#1.mp4", "lance:///v/1.lance#clip/7")
    held = [count_held_bytes(replace(video("a"), uri=address, size_bytes=9)) for address in addresses]
    assert held == [0, 0, 9, 9]


@pytest.mark.parametrize(("n_gpus", "cores", "n"), [(8, 192, 24), (1, 16, 16), (0, 16, 8), (0, 1, 1), (8, 4, 1)])
def test_an_encoder_has_the_cores_of_its_gpu_or_half_of_all(tmp_path: Path, n_gpus: int, cores: int, n: int) -> None:
    for number in range(n_gpus):
        (tmp_path / f"0000:{number}").mkdir()
    assert count_cores_per_encoder(cores, tmp_path) == n
    assert count_cores_per_encoder(cores, tmp_path / "missing") == max(1, cores // 2)
    assert count_cores() >= 1


def test_decoders_that_do_not_fit_are_named_by_the_largest_picture() -> None:
    videos = [video("small"), video("film", 8192, 4352), video("middle", 1920, 1080)]
    # A decoder counts 20 pictures in three bytes a pixel, and its process.
    needed = PROCESS_BYTES + 60 * 8192 * 4352
    assert explain_memory(DecoderPool(64, 64 * needed), videos) is None
    line = explain_memory(DecoderPool(64, 5 * needed + 1), videos)
    assert line == (
        "5 decoders instead of 64 can decode frames of 8192 x 4352 at once, as in film: one takes 2.24 GB, and "
        "11.2 GB of memory may be used; set REELSIEVE_DECODERS to 5, or scale the largest videos down"
    )
    assert str(explain_memory(DecoderPool(2, 1), videos)).startswith("1 decoder instead of 2 can")
    unknown = explain_memory(DecoderPool(64, 5 * needed), [*videos[:1], video("odd", None, None)])
    assert unknown is not None
    assert "of unknown size at once, as in odd" in unknown
    assert explain_memory(DecoderPool(64, 1), []) is None


def test_free_memory_is_that_of_the_machine_or_of_its_container(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    assert read_free_memory(meminfo, tmp_path) is None
    meminfo.write_text("MemTotal:  9000 kB\nMemAvailable:    4000 kB\n")
    assert read_free_memory(meminfo, tmp_path) == 4_096_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert read_free_memory(meminfo, tmp_path) == 4_096_000
    (tmp_path / "memory.max").write_text("5000\n")
    assert read_free_memory(meminfo, tmp_path) == 4000
    assert read_free_memory() is not None
