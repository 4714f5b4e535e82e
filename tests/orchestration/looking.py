"""A dataset with videos, hostile names and every trouble, and the pages of `reelsieve look` on it, for tests."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import av
import numpy as np
import pytest
import sqlalchemy as sa
import uvicorn
from markupsafe import Markup
from sqlalchemy.engine import Engine

from assets.scores.base import Explanation
from assets.sources.frames import SampledFrames
from assets.sources.texts import TextVectors
from assets.words.marked_text import Mark
from db import schema
from db.evidence.embeddings import text_sha256
from db.evidence.facts import store_text_facts
from db.evidence.models import register_model
from db.manifest.datasets import Dataset
from db.server.engine import open_engine
from metrics_core.protocols import ModelIdentity
from orchestration.look.app import make_look_app
from orchestration.look.state import RatingSetup
from orchestration.web.guard import RequestGuard
from tests.assets.reporting import ToldScorer, rate
from tests.browser import barriers, lent, only_page
from tests.conftest import copied_database
from tests.db.builders import (
    add_keypoint,
    add_reference,
    add_sample,
    add_video,
    make_dataset,
    set_scores,
    store_frame_rows,
    store_vectors,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = """</p><img src=x onerror="window.hit=1"><script>window.hit=1</script>'"&amp;"""
SYSTEMS = ("brief", "o'brien <b>long</b>", "plain")
N_VIDEOS = 10
PLAYING, TEXT_ONLY, UNDECODABLE, MISSING = range(4)
EXPLAINED = Explanation(
    ["same content (SAS) 0.9", HOSTILE],
    [
        {"caption": "1 a dog", "meets in the reference": "2 a cat", "similarity": 0.5, "order": ""},
        {"caption": "2 a cat", "meets in the reference": "1 a dog", "similarity": 0.75, "order": "goes back"},
    ],
    marks=[Mark(2, 5, HOSTILE), Mark(6, 10, "")],
)
KEYWORDS = Explanation(["8 frames"], [{"keyword": HOSTILE, "cosine": 0.25, "best frame at s": 1.5}])
TOO_WIDE = """[...document.querySelectorAll("body *")].filter(each => each.getBoundingClientRect().right >
    innerWidth + 1 && !each.closest(".table, svg, .skip, fieldset")).map(each => each.outerHTML.slice(0, 80))"""
UNNAMED = """[...document.querySelectorAll("input:not([type=hidden]), select, button, a, img, video, svg[role=img]")]
    .filter(each => !(each.labels?.length || each.ariaLabel || each.alt || each.textContent.trim() || each.ariaHidden))
    .map(each => each.outerHTML.slice(0, 80))"""
WINDOWS = {"desktop": (1440, 900), "phone": (400, 850)}
# Windows and pages, with what is unfolded on them, that axe-core has looked at: once is enough.
SEEN: set[tuple[str, str, bool, int]] = set()


@dataclass(frozen=True)
class Shown:
    """The pages on a port of loopback, and what they are of. text_ids: the samples of dataset "texts"."""

    engine: Engine
    dataset: Dataset
    ids: list[int]
    text_ids: list[int]
    media: Path
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> HTTPResponse:
        """The answer to a request of a program; {port} in a header is the server's."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        kind = {} if body is None else {"Content-Type": "application/json"}
        said = {name.replace("_", "-"): value.format(port=self.port) for name, value in headers.items()}
        connection.request(method, path, None if body is None else json.dumps(body), {**kind, **said})
        return connection.getresponse()


class Named:
    """A model of which only the name is asked."""

    def __init__(self, name: str) -> None:
        self.identity = ModelIdentity(name, "1", {})


def scorer_of_vectors() -> ToldScorer:
    """A scorer that compares the vectors of texts and of frames."""
    scorer = ToldScorer("vcs_short")
    frames = SampledFrames(cast(Any, Named("frames")), lambda _: True, ())
    scorer.sources = (TextVectors(cast(Any, Named("texts")), lambda _: (), ()), frames)  # type: ignore[assignment]  # it has none else
    return scorer


def value_of(place: int) -> float | None:
    """Some equal values, and none for every ninth sample."""
    return None if place % 9 == 8 else (place * 7 % 20) / 20


def add_clips(engine: Engine, folder: Path) -> tuple[Dataset, list[int]]:
    """Three captions of each of ten videos; the first is a file that plays, the next ones have a trouble each."""
    dataset, clip = make_dataset(engine, "clips", 2), write_playable(folder / "clip.mp4")
    state = clip.stat()
    facts = {"n_frames": 24, "width": 64, "height": 48, "size_bytes": state.st_size, "mtime_ns": state.st_mtime_ns}
    ids: list[int] = []
    for number in range(N_VIDEOS):
        status = {TEXT_ONLY: "text_only", UNDECODABLE: "undecodable"}.get(number, "ok")
        columns: dict[str, Any] = {**facts, "uri": str(clip), "duration_s": 2.0}
        if number == TEXT_ONLY:
            columns = {"uri": None}
        elif number == UNDECODABLE:
            columns |= {"error": "moov atom not found"}
        elif number == MISSING:
            columns |= {"uri": str(folder / "gone.mp4")}
        content = None if number == TEXT_ONLY else clip.read_bytes()
        key = f"v{number}{'/<i>..' if number == PLAYING else ''}"
        video = add_video(engine, dataset, key, content=content, status=status, **columns)
        add_reference(engine, dataset, video, f"{key}_r", f"A reference {HOSTILE}")
        add_keypoint(engine, dataset, video, f"{key}_k", text=f"A dog runs {HOSTILE}")
        for words, system in enumerate(SYSTEMS):
            text = f"A dog {HOSTILE}{' runs' * words}"
            ids.append(add_sample(engine, dataset, video, f"{key}_{system}", text, system=system))
    set_scores(engine, {i: value_of(place) for place, i in enumerate(ids)})
    set_scores(engine, {i: place / 100 for place, i in enumerate(ids)}, "evqa")
    rate(engine, {ids[0]: (3, 4)}, HOSTILE)
    return dataset, ids


def add_texts(engine: Engine) -> list[int]:
    """A dataset without videos and scores: two captions of each of four videos, with facts, and vectors of all but the
    last video's, which turn by an eighth of a circle from caption to caption.
    """
    dataset, ids, texts = make_dataset(engine, "texts"), [], []
    for number in range(4):
        video = add_video(engine, dataset, f"t{number}", status="text_only", uri=None, duration_s=None)
        add_reference(engine, dataset, video, f"t{number}_r", f"A red dog runs and turn {number} ends.")
        for words, system in enumerate(("long", "short")):
            texts.append(f"A brown dog runs{' far' * (3 - words)} and turn {number} ends.")
            ids.append(add_sample(engine, dataset, video, f"t{number}_{system}", texts[-1], system=system))
    facts = {"sentences": 1, "repetition": None, "boilerplate": None, "digit_share": None, "name_share": 0.0}
    facts |= {"language": "en"}
    described = {text_sha256(text): {**facts, "words": len(text.split())} for text in texts}
    store_text_facts(engine, "1", described)
    with engine.begin() as connection:
        model_id = register_model(connection, Named("texts").identity.as_dict())
    angles = np.arange(len(texts[:-2])) * np.pi / 4
    rate(engine, {ids[0]: (3, 4), ids[1]: (2,)}, "flow")
    store_vectors(engine, model_id, texts[:-2], np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32))
    return ids


def add_bare_video(engine: Engine, clip: Path) -> None:
    """A dataset with one video that plays, and no caption."""
    state = clip.stat()
    columns = {"n_frames": 24, "size_bytes": state.st_size, "mtime_ns": state.st_mtime_ns, "duration_s": 2.0}
    dataset = make_dataset(engine, "bare")
    add_video(engine, dataset, "alone", content=clip.read_bytes(), uri=str(clip), width=64, height=48, **columns)


def add_frames(engine: Engine, videos: dict[int, tuple[float, float]]) -> None:
    """One frame for each of some videos, with this vector."""
    with engine.begin() as connection:
        model_id = register_model(connection, Named("frames").identity.as_dict())
        digests = dict(connection.execute(sa.select(schema.video.c.video_id, schema.video.c.content_sha256)).all())
    row = {"status": "ok", "error": None, "n_frames": 24, "reader": "test"}
    store_frame_rows(
        engine,
        model_id,
        [
            {**row, "video_id": i, "content_sha256": digests[i], "frames": [(0, 0.5, np.asarray(vector, np.float32))]}
            for i, vector in videos.items()
        ],
    )


def write_playable(path: Path) -> Path:
    """Two seconds of a moving square, as browsers play them."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=12)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(24):
            pixels = np.full((48, 64, 3), 40, np.uint8)
            pixels[10:30, 2 * number : 2 * number + 12] = (250, 120, 30)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path.resolve()


@contextmanager
def served(engine: Engine, dataset: Dataset, ids: list[int], text_ids: list[int], media: Path) -> Iterator[Shown]:
    """The guarded pages on a free port, until the block ends."""
    told = {"vcs": EXPLAINED, "evqa": KEYWORDS}
    scorers = {metric: cast(Any, ToldScorer(metric, told.get(metric))) for metric in ("vcs", "evqa")}
    scorers["vcs_short"] = cast(Any, scorer_of_vectors())
    guidelines = Markup("<h1>Style</h1><p>Mark down what is <b>too long</b>.</p>")
    setups = {"style": RatingSetup(guidelines), "watched": RatingSetup(check_every=3)}
    look = make_look_app(engine, lambda: scorers, has_lineage=True, setups=setups)
    # A connection waits in the queue of the socket until the server is there to take it.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(RequestGuard(look, port), lifespan="off", log_level="warning"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield Shown(engine, dataset, ids, text_ids, media, port)
        finally:
            server.should_exit = True
            thread.join()


def frozen_keys(engine: Engine, selection_id: int) -> set[str]:
    """The samples of a selection."""
    item = schema.selection_item.c
    with engine.connect() as connection:
        return set(connection.scalars(sa.select(item.sample).where(item.selection_id == selection_id)))


@pytest.fixture(scope="module")
def shown(shared_server: Engine, tmp_path_factory: pytest.TempPathFactory) -> Generator[Shown, None, None]:
    folder = tmp_path_factory.mktemp("media")
    with copied_database(shared_server) as url:
        engine = open_engine(url)
        dataset, ids = add_clips(engine, folder)
        add_bare_video(engine, (folder / "clip.mp4").resolve())
        with served(engine, dataset, ids, add_texts(engine), folder) as pages:
            yield pages
        engine.dispose()


@pytest.fixture(scope="module")
def tab(shown: Shown) -> Generator[Page, None, None]:
    with only_page(base_url=shown.address) as page:
        yield page


# What people do where a narrow window folds or stacks parts of a page is tried there, too.
in_both_windows = pytest.mark.parametrize("page", WINDOWS, indirect=True)


@pytest.fixture
def page(request: pytest.FixtureRequest, tab: Page, shown: Shown) -> Generator[Page, None, None]:
    """A page that asks nothing of any other machine, obeys no text, and in its last state fits both windows and keeps
    nobody out; what people do with it is done in the wide one unless the test asks for both.
    """
    begun = getattr(request, "param", "desktop")
    with lent(tab, *WINDOWS[begun]) as (asked, errors):
        yield tab
        # A page that is on its way has no style yet, and is as wide as it likes.
        tab.wait_for_load_state()
        assert tab.evaluate("window.hit") is None
        for window in (begun, *(WINDOWS.keys() - {begun})):
            _assert_open_to_everybody(tab, window)
    assert [url for url in asked if not url.startswith(shown.address)] == []
    assert errors == []


def _assert_open_to_everybody(page: Page, window: str) -> None:
    width, height = WINDOWS[window]
    page.set_viewport_size({"width": width, "height": height})
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(UNNAMED) == []
    at = urlsplit(page.url)
    kind = (window, re.sub(r"\d+", "", at.path), "pairs" in at.query, page.locator("details[open]").count())
    if kind not in SEEN:
        SEEN.add(kind)
        assert barriers(page) == []
