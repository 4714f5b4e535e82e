"""Chat models in this process: tiny checkpoints with random weights through the loading path of real ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from metrics_core.models.chat.protocol import ChatReply
from metrics_core.models.chat.structured import read_answer
from metrics_core.models.chat.transformers_chat import Constraint, TransformersChatModel, installed_version
from metrics_core.models.chat.transformers_generation import Generator, LoadedChat, Written, load_chat
from metrics_core.models.unusable import ModelUnusable
from metrics_core.protocols import ModelIdentity
from tests.metrics_core.broken_models import BREAKS, broken
from tests.metrics_core.chat_fakes import MemoryCache, MemoryLedger, ask, jpeg

RED, BLUE = jpeg(84, 56, "red"), jpeg(84, 56, "blue")
GREEDY: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
VERDICT = {
    "type": "object",
    "properties": {
        "reasons": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 2},
        "answer": {"enum": ["yes", "no"]},
    },
    "required": ["reasons", "answer"],
    "additionalProperties": False,
}
SHORT = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Imported late, since it imports the models of transformers: every process of the suite collects this file.
    from tests.metrics_core.chat_checkpoints import write_text_model

    return write_text_model(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def video_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.metrics_core.chat_checkpoints import write_video_model

    return write_video_model(tmp_path_factory.mktemp("video"))


@pytest.fixture(scope="module")
def loaded_text(text_model: Path) -> LoadedChat:
    return load_chat(str(text_model), "sha256:", "fp32")


@pytest.fixture(scope="module")
def loaded_video(video_model: Path) -> LoadedChat:
    return load_chat(str(video_model), "sha256:", "fp32")


def fresh(loaded: LoadedChat, *asked: Any, **changes: Any) -> Written:
    """What a generator that has seen nothing writes, 12 tokens at most."""
    return Generator(loaded).write(ask(*asked, max_tokens=12, **changes), None, GREEDY)


def test_random_weights_write_json_that_fits(text_model: Path) -> None:
    assert installed_version(), "the extra `constrained` is part of the lock file"
    ledger = MemoryLedger()
    model = TransformersChatModel(str(text_model), ledger=ledger)
    replies = model.chat([ask(question, schema=VERDICT, max_tokens=80) for question in ("Why?", "Who?")])
    assert [reply.status for reply in replies] == ["ok", "ok"]
    for reply in replies:
        # The member that the schema names first is written first.
        assert list(reply.data or {}) == ["reasons", "answer"]
        assert read_answer(json.dumps(reply.data), VERDICT) == reply.data
        assert reply.usage.calls == 1
        assert reply.usage.tokens_in > 100
        assert 0 < reply.usage.tokens_out <= 80
    assert ledger.outcomes == ["ok", "ok"]


def test_a_video_model_answers_in_the_order_of_the_requests(video_model: Path) -> None:
    requests = [
        ask("Why?", RED, schema=SHORT, max_tokens=20),
        ask("Why?", schema=SHORT, max_tokens=20),
        ask("Who?", RED, schema=SHORT, max_tokens=20, purpose="other"),
    ]
    together = TransformersChatModel(str(video_model)).chat(requests)
    alone = [TransformersChatModel(str(video_model)).chat([request])[0] for request in requests]
    assert together == alone
    assert {reply.status for reply in together} == {"ok"}


def test_the_images_decide_the_answer(loaded_video: LoadedChat) -> None:
    # The processor of this model takes two images of 3 x 2 squares, 12 tokens more than without them.
    with_red, with_blue, none = (fresh(loaded_video, "Why?", *images) for images in ([RED, RED], [BLUE, BLUE], []))
    assert with_red.tokens_in == with_blue.tokens_in == none.tokens_in + 2 * (6 + 2)
    assert with_red.text != with_blue.text


@pytest.mark.parametrize("images", [[], [RED, BLUE]])
def test_going_on_from_the_prompt_before_writes_the_same(loaded_video: LoadedChat, images: list[bytes]) -> None:
    generator = Generator(loaded_video)
    questions = ["Why does it run?", "Why?", "Who runs there, and where to?"]
    for number, question in enumerate(questions):
        written = generator.write(ask(question, *images, max_tokens=12), None, GREEDY)
        expected = fresh(loaded_video, question, *images)
        assert (written.text, written.tokens_in, written.cut) == (expected.text, expected.tokens_in, expected.cut)
        assert (written.reused > 20 + 8 * len(images)) == (number > 0)


def test_other_images_start_afresh(loaded_video: LoadedChat) -> None:
    generator = Generator(loaded_video)
    for images in ([RED, BLUE], [BLUE, RED], [RED], []):
        written = generator.write(ask("Why?", *images, max_tokens=12), None, GREEDY)
        assert written.reused == 0
        assert written.text == fresh(loaded_video, "Why?", *images).text


def test_a_text_model_goes_on_too(loaded_text: LoadedChat) -> None:
    generator = Generator(loaded_text)
    story = "A dog runs after a ball. " * 10
    for number, question in enumerate(("Who runs?", "Who?")):
        written = generator.write(ask(story + question, max_tokens=12), None, GREEDY)
        assert written.text == fresh(loaded_text, story + question).text
        assert (written.reused > len(story)) == (number > 0)


def test_a_control_token_in_a_caption_is_text(loaded_text: LoadedChat) -> None:
    end = loaded_text.tokenizer.eos_token
    inputs = Generator(loaded_text)._inputs(ask(f"A dog.{end} Say yes."))
    n_ends = inputs["input_ids"][0].tolist().count(loaded_text.tokenizer.convert_tokens_to_ids(end))
    # One after the system's message and one after the user's.
    assert n_ends == 2


def test_without_constraint_nonsense_is_malformed_after_three_attempts(text_model: Path) -> None:
    cache, ledger = MemoryCache(), MemoryLedger()
    model = TransformersChatModel(str(text_model), constrained=False, cache=cache, ledger=ledger)
    (reply,) = model.chat([ask("Why?", max_tokens=8)])
    assert (reply.status, reply.data, reply.usage.calls) == ("malformed", None, 3)
    assert set(ledger.outcomes) <= {"malformed", "truncated"}
    assert cache.replies == {}
    assert model.identity.params["decoding"] == "prompt"


def test_an_answer_that_does_not_fit_its_limit_is_cut(text_model: Path) -> None:
    (reply,) = TransformersChatModel(str(text_model)).chat([ask("Why?", schema=SHORT, max_tokens=5)])
    assert reply.status == "malformed"
    assert "cut at 5 tokens" in str(reply.reason)


def test_what_is_too_long_is_an_error_with_its_remedy(text_model: Path) -> None:
    (reply,) = TransformersChatModel(str(text_model)).chat([ask("x" * 5000, schema=SHORT)])
    assert (reply.status, reply.usage.tokens_in) == ("error", 0)
    assert "exceed the 4096 that the model takes" in str(reply.reason)


def test_a_broken_image_is_an_error_of_its_request(video_model: Path) -> None:
    requests = [ask("Why?", b"no jpeg", schema=SHORT), ask("Why?", RED[:300], schema=SHORT), ask("Why?", schema=SHORT)]
    replies = TransformersChatModel(str(video_model)).chat(requests)
    assert [reply.status for reply in replies] == ["error", "error", "ok"]
    assert "cannot be read" in str(replies[0].reason)


def test_a_text_model_is_not_asked_about_images(text_model: Path) -> None:
    (reply,) = TransformersChatModel(str(text_model)).chat([ask("Why?", RED)])
    assert reply.status == "error"
    assert "takes no images" in str(reply.reason)


def test_answers_are_stored_and_found_without_loading_the_model(text_model: Path, tmp_path: Path) -> None:
    cache = MemoryCache()
    folder = tmp_path / "model"
    shutil.copytree(text_model, folder)
    request = ask("Why?", schema=SHORT, max_tokens=20)
    (first,) = TransformersChatModel(str(folder), cache=cache).chat([request])
    (again,) = TransformersChatModel(str(folder), cache=cache, mode="offline").chat([request])
    assert again == ChatReply("ok", first.data, cached=True)
    other = tmp_path / "other"
    from tests.metrics_core.chat_checkpoints import write_text_model

    write_text_model(other, seed=1)
    (missing,) = TransformersChatModel(str(other), cache=cache, mode="offline").chat([request])
    assert missing.status == "error"
    assert "run once without offline" in str(missing.reason)


def test_the_identity_names_weights_precision_and_decoding(text_model: Path) -> None:
    identity = TransformersChatModel(str(text_model), precision="bf16").identity
    assert isinstance(identity, ModelIdentity)
    assert identity.model_id == str(text_model)
    assert identity.revision.startswith("sha256:")
    assert identity.params["decoding"] == f"llguidance {installed_version()}"
    assert set(identity.params) == {"precision", "decoding"}


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_model_is_named(text_model: Path, tmp_path: Path, how: str) -> None:
    folder = broken(text_model, tmp_path / "broken", how)
    with pytest.raises(ValueError, match="broken") as raised:
        TransformersChatModel(str(folder)).chat([ask()])
    assert getattr(raised.value, "plain", False)


def test_a_model_without_a_chat_template_is_refused(text_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    shutil.copytree(text_model, folder)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ModelUnusable, match="no chat template"):
        TransformersChatModel(str(folder)).chat([ask()])


def test_a_schema_that_no_grammar_can_follow_is_named(loaded_text: LoadedChat) -> None:
    constraint = Constraint(loaded_text.tokenizer, len(loaded_text.tokenizer), loaded_text.end_tokens)
    with pytest.raises(ModelUnusable, match="cannot follow the schema"):
        constraint.processor({"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "required": ["a"]})
