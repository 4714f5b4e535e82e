"""The map of a dataset in a browser, wide and narrow, by mouse and by keys, and what programs are answered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from assets.datasets.lookup import require_dataset
from assets.sample_map import MapArea, MapCache, MapUnknown, list_map_vectors
from db.evidence.embeddings import text_sha256
from db.evidence.models import register_model
from db.evidence.video_vectors import build_identity
from db.schema import remark, sample, video_embedding
from metrics_core.projection import Projection, project_vectors
from orchestration.look.sample_map import build_classes
from tests.browser import barriers
from tests.db.builders import add_sample, add_video, change_text, make_dataset, store_vectors
from tests.orchestration.looking import (
    TOO_WIDE,
    UNNAMED,
    Named,
    Shown,
    add_frames,
    frozen_keys,
    in_both_windows,
    page,
    scorer_of_vectors,
    shown,
    tab,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page", "shown", "tab"]  # fixtures

VECTORS = "texts by texts"
# Captions of dataset "texts" that have a vector.
KEYS = [f"t{number}_{system}" for number in range(3) for system in ("long", "short")]
MANY = 5_100
LONG = "system = 'long'"


@pytest.fixture(autouse=True)
def nothing_written(shown: Shown) -> Iterator[None]:
    """Tags are gone before the next test."""
    yield
    with shown.engine.begin() as connection:
        connection.execute(sa.delete(remark))


def points(shown: Shown, dataset: str = "texts", **values: str) -> dict[str, Any]:
    query = urlencode({"vectors": VECTORS, "colour": "system", **values})
    answer = shown.ask(f"/look/{dataset}/map/points?{query}")
    body: dict[str, Any] = json.loads(answer.read())
    assert answer.status == 200, body
    return body


def area_of(answer: dict[str, Any], left: float, right: float, bottom: float, top: float) -> str:
    return json.dumps([VECTORS, answer["stamp"], left, right, bottom, top])


def keys_of(shown: Shown, ids: list[int]) -> list[str]:
    with shown.engine.connect() as connection:
        return sorted(connection.scalars(sa.select(sample.c.key).where(sample.c.sample_id.in_(ids))))


def tagged(shown: Shown) -> Counter[tuple[str, str]]:
    """How many samples have a tag by an author."""
    with shown.engine.connect() as connection:
        return Counter((row[0], row[1]) for row in connection.execute(sa.select(remark.c.text, remark.c.made_by)))


def places(page: Page, answer: dict[str, Any]) -> list[tuple[float, float]]:
    """Where the points are in the window."""
    page.locator("#legend li").first.wait_for()
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    across, down = (share_of(answer[axis]) for axis in ("x", "y"))
    return [
        (box["x"] + box["width"] * x, box["y"] + box["height"] * (1 - y)) for x, y in zip(across, down, strict=True)
    ]


def share_of(values: list[float]) -> list[float]:
    """The places between the limits of the picture, which has a margin of 3 % on both sides."""
    low, high = min(values), max(values)
    return [(value - low + 0.03 * (high - low)) / (1.06 * (high - low)) for value in values]


def pixel_at(page: Page, x: float, y: float) -> str:
    """The colour of the canvas at a place of the window."""
    script = """([x, y]) => {
        const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
        const at = [(x - box.x) * devicePixelRatio, (y - box.y) * devicePixelRatio];
        return [...canvas.getContext("2d").getImageData(...at, 1, 1).data].join();
    }"""
    return str(page.evaluate(script, [x, y]))


@pytest.mark.browser
def test_points_have_the_colours_of_the_legend(page: Page, shown: Shown) -> None:
    page.goto("/look/texts")
    page.get_by_role("link", name="Map").click()
    page.wait_for_url("**/map?**")
    page.get_by_label("Colours by").select_option("system")
    page.wait_for_url("**colour=system**")
    answer = points(shown)
    where = places(page, answer)
    assert page.locator("#legend li").all_inner_texts() == ["long (3)", "short (3)"]
    inks = page.locator("#legend i").evaluate_all(
        "all => all.map(each => getComputedStyle(each).backgroundColor.match(/\\d+/g).join() + ',255')"
    )
    assert [pixel_at(page, *place) for place in where] == [inks[number] for number in answer["classes"]]
    assert page.locator("#map-note").inner_text().startswith("6 samples, placed by vectors of texts by texts")
    assert page.get_by_role("img", name="6 samples, placed").count() == 1
    page.goto(f"/look/texts/map?colour=system&only={quote(LONG)}")
    where = places(page, answer)
    assert page.locator("#legend li").all_inner_texts() == ["long (3)"]
    kept = points(shown, only=LONG)["classes"]
    assert [each == 0 for each in answer["classes"]] == [each is not None for each in kept]
    grey = {pixel_at(page, *place) for place, each in zip(where, kept, strict=True) if each is None}
    assert grey == {"213,219,225,255"}


@pytest.mark.browser
@in_both_windows
def test_an_area_is_drawn_shown_and_left(page: Page, shown: Shown) -> None:
    page.goto("/look/texts/map?colour=words&sort=")
    answer = points(shown)
    where = places(page, answer)
    chosen = sorted(where)[:3]
    (left, right), (top, bottom) = ((min(axis) - 9, max(axis) + 9) for axis in zip(*chosen, strict=True))
    page.mouse.move(right, bottom)
    page.mouse.down()
    page.mouse.move(left + 30, top + 30)
    page.mouse.move(left, top)
    page.mouse.up()
    inside = [i for i, (x, y) in zip(answer["ids"], where, strict=True) if left <= x <= right and top <= y <= bottom]
    page.get_by_text(f"{len(inside)} samples in the area").wait_for()
    box = page.locator(".area").bounding_box()
    assert box is not None
    assert [box["x"], box["y"]] == pytest.approx([left, top], abs=2)
    assert page.evaluate(TOO_WIDE) == page.evaluate(UNNAMED) == barriers(page) == []
    page.get_by_role("link", name="Show them").click()
    page.get_by_role("status").get_by_text(f"{len(inside)} samples").wait_for()
    assert sorted(page.locator(".card .open").all_inner_texts()) == keys_of(shown, inside)
    # The area goes along with other choices on the page, until it is left.
    page.get_by_label("In order of").select_option("words")
    page.wait_for_url("**sort=words**")
    assert page.locator(".card").count() == len(inside)
    page.get_by_role("link", name="Remove the area of the map").click()
    page.wait_for_url(lambda url: "area" not in url)
    assert page.locator(".card").count() == 8


@pytest.mark.browser
def test_an_area_is_typed_tagged_and_frozen_by_its_tag(page: Page, shown: Shown) -> None:
    page.goto("/look/texts/map?colour=words&sort=")
    answer = points(shown)
    places(page, answer)
    limit = float(np.median(answer["x"]))
    page.get_by_label("Right", exact=True).fill(str(limit))
    inside = [i for i, x in zip(answer["ids"], answer["x"], strict=True) if x <= limit]
    page.get_by_text(f"{len(inside)} samples in the area").wait_for()
    assert page.locator(".area").is_visible()
    page.get_by_label("Tag", exact=True).fill("Left Half")
    page.get_by_label("Your name").fill("ann")
    page.keyboard.press("Enter")
    page.get_by_text('the condition "tag_left half" keeps them').wait_for()
    assert tagged(shown) == {("left half", "ann"): len(inside)}
    page.get_by_role("button", name="Undo").click()
    page.get_by_text(f"{len(inside)} samples lost the tag 'left half'").wait_for()
    assert tagged(shown) == {}
    page.get_by_label("Tag", exact=True).fill("left half")
    page.keyboard.press("Enter")
    page.get_by_text("keeps them").wait_for()
    page.goto("/look/texts/selection?sort=&where=" + quote('"tag_left half"'))
    page.get_by_role("button", name=f"Freeze {len(inside)} samples").click()
    page.locator("#message").get_by_text("reelsieve export").wait_for()
    number = int(page.locator("#message").inner_text().split()[1])
    assert sorted(frozen_keys(shown.engine, number)) == keys_of(shown, inside)
    page.go_back()
    page.get_by_label("Right", exact=True).fill("-9")
    page.get_by_text("0 samples in the area").wait_for()
    assert not page.get_by_role("link", name="Show them").is_visible()
    page.get_by_role("button", name="Clear").press("Enter")
    page.get_by_text("No area is chosen.").wait_for()


@pytest.mark.browser
def test_a_click_opens_the_nearest_sample(page: Page, shown: Shown) -> None:
    page.goto("/look/texts/map?sort=")
    answer = points(shown)
    (x, y), sample_id = places(page, answer)[0], answer["ids"][0]
    page.mouse.click(x + 3, y - 3)
    page.wait_for_url(f"**/look/texts/sample/{sample_id}?**")
    page.go_back()
    places(page, answer)
    box = page.locator("canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 2, box["y"] + 2)
    assert urlsplit(page.url).path == "/look/texts/map", "nothing is so near"


@pytest.mark.browser
def test_without_vectors_the_page_names_the_command(page: Page) -> None:
    page.goto("/look/clips/map")
    page.get_by_text("reelsieve search TEXT --dataset clips").wait_for()


# What programs are answered.


def test_points_are_the_samples_with_vectors_in_their_places(shown: Shown) -> None:
    answer = points(shown)
    assert keys_of(shown, answer["ids"]) == KEYS
    # Vectors that turn by an eighth of a circle: neighbours are equally far apart.
    by_id = {i: np.array(place) for i, *place in zip(answer["ids"], answer["x"], answer["y"], strict=True)}
    turns = [by_id[i] for i in sorted(by_id)]
    gaps = [float(np.linalg.norm(a - b)) for a, b in pairwise(turns)]
    assert gaps == pytest.approx([2 * np.sin(np.pi / 8)] * 5, abs=2e-4)
    assert answer["note"].startswith("6 samples, placed by vectors of texts by texts. The two directions are")
    assert points(shown) == answer


def test_values_of_a_column_are_classes(shown: Shown) -> None:
    answer = points(shown, colour="words")
    assert answer["isOrdered"] is True
    assert answer["legend"] == [{"label": "10", "n": 3}, {"label": "11", "n": 3}]
    answer = points(shown, colour="vcs")
    assert (set(answer["classes"]), answer["legend"]) == ({0}, [{"label": "no value", "n": 6}])


def test_an_area_meets_every_page_of_samples(shown: Shown) -> None:
    answer = points(shown)
    limit = sorted(answer["x"])[2]
    inside = [i for i, x in zip(answer["ids"], answer["x"], strict=True) if x <= limit]
    area = quote(area_of(answer, -9, limit, -9, 9))
    cards = shown.ask(f"/look/texts?sort=&area={area}").read().decode()
    assert [key for key in KEYS if f">{key}</a>" in cards] == keys_of(shown, inside)
    counts = shown.ask(f"/look/texts/histogram?column=system&area={area}").read().decode()
    systems = Counter(key.partition("_")[2] for key in keys_of(shown, inside))
    assert all(f"<span>{system}</span><span>{n}</span>" in counts for system, n in systems.items())
    walked = shown.ask(f"/look/texts/sample/{min(inside)}?sort=&area={area}").read().decode()
    assert f"/sample/{sorted(inside)[1]}?" in walked


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("map/points?vectors=words+by+gone&colour=system", "dataset texts has no vectors of 'words by gone'"),
        ("map/points?vectors=texts+by+texts&colour=gone", "unknown name 'gone'"),
        ("map/points?vectors=texts+by+texts&colour=system&where=vcs+>", "not a complete condition"),
        ("?area=x", "names no valid area of a map"),
        ("?area=[1,2,3,4,5,6]", "names no valid area of a map"),
        ("?area=" + quote('["a","b",1,2,3]'), "names no valid area of a map"),
        ("?area=" + quote('["a","b",1,2,3,[4]]'), "names no valid area of a map"),
        ("?area=" + quote('["\\u0000","b",1,2,3,4]'), "names no valid area of a map"),
        ("?area=" + quote('["a","b",1,2,3,1' + "0" * 400 + "]"), "names no valid area of a map"),
        (f"?area={'[' * 3000}", "names no valid area of a map"),
        ("?area=" + quote('["gone","b",1,2,3,4]'), "dataset texts has no vectors of 'gone'"),
        ("?area=" + quote('["texts by texts","old",1,2,3,4]'), "samples or vectors changed since this area was chosen"),
        ("selection?area=OWN", "an area of the map cannot be a condition: tag its samples"),
        ("sql?area=OWN", "an area of the map cannot be a condition: tag its samples"),
    ],
)
def test_a_mistake_is_explained_in_one_sentence(shown: Shown, path: str, sentence: str) -> None:
    own = quote(area_of(points(shown), -9, 9, -9, 9))
    joint = "" if path.startswith("?") else "/"
    answer = shown.ask(f"/look/texts{joint}{path.replace('OWN', own)}")
    text = answer.read().decode().replace("&#39;", "'")
    assert (answer.status, sentence in text) == (400, True), text


def change(shown: Shown, dataset: str, path: str, **values: str) -> tuple[int, dict[str, str]]:
    answer = shown.ask(f"/look/{dataset}/{path}?{urlencode(values)}", "POST", {})
    return answer.status, json.loads(answer.read())


def test_only_samples_without_the_tag_get_it_and_undo_takes_only_these_back(shown: Shown) -> None:
    area = area_of(points(shown), -9, 9, -9, 9)
    status, first = change(shown, "texts", "map/tag", text="Odd", by="ann", area=area, where=LONG)
    assert (status, first["message"]) == (200, "3 samples got the tag 'odd': the condition tag_odd keeps them")
    status, second = change(shown, "texts", "map/tag", text="odd", by="bob", area=area)
    assert second["message"].endswith("keeps them; the others had it already")
    assert tagged(shown) == {("odd", "ann"): 3, ("odd", "bob"): 3}
    status, answer = change(shown, "texts", "map/tag", text="odd", by="bob", area=area)
    assert (status, answer["message"]) == (409, "no sample got the tag 'odd': the area has no sample without it")
    assert json.loads(shown.ask(second["undo"], "POST", {}).read()) == {"message": "3 samples lost the tag 'odd'"}
    assert tagged(shown) == {("odd", "ann"): 3}
    assert shown.ask(second["undo"], "POST", {}).status == 409


@pytest.mark.parametrize(
    ("path", "values", "sentence"),
    [
        ("map/tag", {"text": "odd", "by": "ann"}, "no area is chosen: draw one on the map first"),
        ("map/tag", {"text": " ", "by": "ann"}, "the tag is empty: write one"),
        ("map/tag", {"text": "odd", "by": ""}, "the name is empty: write one"),
        ("views", {"name": "odd", "area": "[]"}, "an area of the map cannot be a condition: tag its samples there"),
        ("map/untag", {"text": "odd", "by": "ann"}, "is not a time"),
        ("map/untag", {"text": "odd", "by": "ann", "at": "now"}, "'now' in the address is not a time with its zone"),
    ],
)
def test_a_change_that_cannot_be_made_is_explained_in_one_sentence(
    shown: Shown, path: str, values: dict[str, str], sentence: str
) -> None:
    status, answer = change(shown, "texts", path, **values)
    assert (status, sentence in answer["message"]) == (400, True), answer
    assert shown.ask(f"/look/texts/{path}", "POST").status == 415
    assert shown.ask(f"/look/texts/{path}", "POST", {}, Origin="http://evil.example").status == 403


def add_captions(shown: Shown, dataset: str, texts: list[str], vectors: np.ndarray) -> list[int]:
    """Captions of one video with these texts, and the vectors of the different texts."""
    made = make_dataset(shown.engine, dataset)
    video = add_video(shown.engine, made, "v", status="text_only", uri=None)
    first = add_sample(shown.engine, made, video, "s0", texts[0])
    with shown.engine.begin() as connection:
        model_id = register_model(connection, Named("texts").identity.as_dict())
        columns = [sample.c[name] for name in ("dataset_id", "shard", "video_id", "kind", "system", "row_sha256")]
        row = dict(connection.execute(sa.select(*columns).where(sample.c.sample_id == first)).mappings().one())
        more = [
            {**row, "key": f"s{place}", "text": text, "text_sha256": text_sha256(text)}
            for place, text in enumerate(texts[1:], 1)
        ]
        ids = connection.scalars(sa.insert(sample).returning(sample.c.sample_id), more).all() if more else []
    store_vectors(shown.engine, model_id, list(dict.fromkeys(texts)), vectors.astype(np.float32))
    return [first, *ids]


def test_thousands_of_samples_are_tagged_at_once(shown: Shown) -> None:
    add_captions(shown, "many", [f"many {place % 3}" for place in range(MANY)], np.eye(3)[:, :2] + 1)
    area = area_of(points(shown, "many"), -9, 9, -9, 9)
    status, answer = change(shown, "many", "map/tag", text="all", by="ann", area=area)
    assert (status, answer["message"]) == (200, f"{MANY:,} samples got the tag 'all': the condition tag_all keeps them")
    assert tagged(shown) == {("all", "ann"): MANY}
    assert json.loads(shown.ask(answer["undo"], "POST", {}).read())["message"] == f"{MANY:,} samples lost the tag 'all'"


def test_a_map_is_computed_again_only_after_a_change(shown: Shown) -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    ids = add_captions(shown, "changing", [f"changing {place}" for place in range(4)], vectors)
    dataset = require_dataset(shown.engine, "changing")
    maps = MapCache(shown.engine, lambda: {"vcs_short": cast(Any, scorer_of_vectors())})
    first = maps.load(dataset, VECTORS)
    assert maps.load(dataset, VECTORS) is first
    assert (sorted(first.sample_ids.tolist()), first.n_all, first.n_placeless) == (ids[:3], 4, 1)
    assert "1 sample with a zero vector has no point" in points(shown, "changing")["note"]
    area = MapArea(VECTORS, first.stamp, -9, 9, 0, 9)
    expected = [i for i, (_, y) in zip(first.sample_ids.tolist(), first.coordinates, strict=True) if y >= 0]
    assert maps.list_area(dataset, area) == expected
    change_text(shown.engine, ids[3], "changing 0")
    # An area belongs to the map that it was chosen on, as long as that is in memory.
    assert maps.list_area(dataset, area) == expected
    second = maps.load(dataset, VECTORS)
    assert (sorted(second.sample_ids.tolist()), second.stamp != first.stamp) == (ids, True)
    with pytest.raises(MapUnknown, match="choose it on the map again"):
        maps.list_area(dataset, area)
    # A process that has no map yet computes it for an area.
    fresh = MapCache(shown.engine, lambda: {"vcs_short": cast(Any, scorer_of_vectors())})
    assert sorted(fresh.list_area(dataset, area._replace(stamp=second.stamp, bottom=-9))) == ids


def test_a_map_in_the_making_holds_up_no_other(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    add_captions(shown, "slow", [f"slow {place}" for place in range(5)], np.eye(5)[:, :2] + 1)
    add_captions(shown, "swift", [f"swift {place}" for place in range(3)], np.array([[1, 0], [0, 1], [1, 1]]))
    slow, swift = (require_dataset(shown.engine, name) for name in ("slow", "swift"))
    started, may_end = Event(), Event()

    def project(vectors: np.ndarray) -> Projection:
        if len(vectors) == 5:
            started.set()
            assert may_end.wait(30)
        return project_vectors(vectors)

    monkeypatch.setattr("assets.sample_map.project_vectors", project)
    maps = MapCache(shown.engine, lambda: {"vcs_short": cast(Any, scorer_of_vectors())})
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(maps.load, slow, VECTORS)
        assert started.wait(30)
        try:
            assert len(pool.submit(maps.load, swift, VECTORS).result(10).sample_ids) == 3
        finally:
            may_end.set()
        assert len(first.result().sample_ids) == 5


def test_a_map_needs_three_different_vectors(shown: Shown) -> None:
    add_captions(shown, "few", ["few 1", "few 2"], np.eye(2))
    query = urlencode({"vectors": VECTORS, "colour": "system"})
    answer = shown.ask(f"/look/few/map/points?{query}")
    assert answer.status == 400
    assert json.loads(answer.read())["message"].startswith("a map needs 3 different vectors that are not zero, not 2")
    add_captions(shown, "equal", ["equal"] * 4, np.ones((1, 2)))
    assert json.loads(shown.ask(f"/look/equal/map/points?{query}").read())["message"].startswith(
        "a map needs 3 different"
    )


def test_videos_without_captions_have_no_point(shown: Shown) -> None:
    dataset = make_dataset(shown.engine, "silent")
    video = add_video(shown.engine, dataset, "v", content=b"silent")
    add_frames(shown.engine, {video: (1, 0)})
    answer = shown.ask("/look/silent/map/points?vectors=frames+by+frames&colour=system")
    assert answer.status == 400
    assert json.loads(answer.read())["message"].startswith("no sample of dataset silent has one of these vectors")


def test_all_vectors_of_a_dataset_are_offered(shown: Shown) -> None:
    with shown.engine.begin() as connection:
        model_id = register_model(connection, build_identity("InternVideo2"))
        videos = connection.execute(sa.text("SELECT video_id, content_sha256 FROM video WHERE status = 'ok'")).all()
        for place, (video_id, digest) in enumerate(videos):
            row = {"model_id": model_id, "video_id": video_id, "content_sha256": digest, "extra": {}}
            vector = [1.0, float(place), float(place**2)]
            connection.execute(
                video_embedding.insert().values(**row, embedding=vector, row_sha256=text_sha256(str(place)))
            )
    add_frames(shown.engine, {video_id: (1, place) for place, (video_id, _) in enumerate(videos)})
    dataset = require_dataset(shown.engine, "clips")
    with shown.engine.connect() as connection:
        choices = list_map_vectors(connection, dataset, {"vcs_short": cast(Any, scorer_of_vectors())})
        assert list_map_vectors(connection, dataset, {}) == {"videos by InternVideo2": ("video", model_id)}
    assert list(choices) == ["frames by frames", "videos by InternVideo2"]
    of_videos = sample.c.video_id.in_([video_id for video_id, _ in videos])
    with shown.engine.connect() as connection:
        expected = sorted(connection.scalars(sa.select(sample.c.sample_id).where(of_videos)))
    for vectors in choices:
        answer = points(shown, "clips", vectors=vectors)
        assert sorted(answer["ids"]) == expected
        # The captions of one video are one point.
        assert len({*zip(answer["x"], answer["y"], strict=True)}) <= len(videos)
    page = shown.ask("/look/clips/map").read().decode()
    assert [
        f"<option{each}</option>" in page for each in (" selected>frames by frames", ">videos by InternVideo2")
    ] == [True, True]


@given(st.lists(st.one_of(st.none(), st.integers(-20, 20)), max_size=60))
def test_classes_of_numbers_are_neighbours(values: list[int | None]) -> None:
    classes, legend = build_classes(values, is_number=True)
    assert [each["n"] for each in legend] == [classes.count(number) for number in range(len(legend))]
    pairs = sorted((value, number) for value, number in zip(values, classes, strict=True) if value is not None)
    assert [number for _, number in pairs] == sorted(number for _, number in pairs)
    distinct = len({value for value in values if value is not None})
    assert len(legend) == min(7, distinct) + (None in values)
    assert all(
        (value is None) == (legend[number]["label"] == "no value")
        for value, number in zip(values, classes, strict=True)
    )


def test_rare_values_share_a_class() -> None:
    values = [*"aabbccddeeffgghi", None]
    classes, legend = build_classes(values, is_number=False)
    assert [each["label"] for each in legend] == [*"abcdefg", "other values", "no value"]
    assert classes == [*np.repeat(range(7), 2).tolist(), 7, 7, 8]
    assert build_classes([], is_number=True) == ([], [])
    assert [each["label"] for each in build_classes([True, False, True], is_number=False)[1]] == ["yes", "no"]
