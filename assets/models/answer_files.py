"""Answers to written requests, which others computed: read from files by their ids, checked and stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.models.request_files import RequestFilesUnusable, RequestForm, WrittenRequests, read_written_requests
from assets.progress import LineWriter
from db.evidence.chat_replies import PostgresImport, PostgresReplies
from metrics_core.models.chat.attempt_result import AttemptResult, classify_answer
from metrics_core.models.chat.wire import Dialect
from metrics_core.models.server.answers import Exchange, hide_key, parse_complaint
from metrics_core.models.server.ledger import build_call
from metrics_core.models.server.spending import compute_call_usage
from metrics_core.models.server.tokens import estimate_byte_tokens

_LINES_AT_A_TIME = 1000
# What is wrong with an answer that is no valid one, by its outcome.
_TROUBLES: Mapping[str, str] = {
    "malformed": "no valid JSON, so that the next export asks again with another seed",
    "truncated": "cut off at the most tokens, so that the next export asks again with another seed",
    "refused": "refused by the model",
    "rejected": "rejected by the server",
    "unreachable": "no answer, so that the next export asks again",
    "wrong_model": "by another model, so that the next export asks again",
}


@dataclass
class ImportedAnswers:
    """The counts of an import. n_written: the requests. n_by_outcome: new answers by outcome. n_known: answers that
    were stored before. n_open: requests without a reply afterwards. troubles: by what is wrong with lines of the files,
    their number, and the place of the first with the reason.
    """

    about: Mapping[str, str]
    n_written: int
    n_by_outcome: Counter[str] = field(default_factory=Counter)
    n_known: int = 0
    n_open: int = 0
    troubles: dict[str, tuple[int, str]] = field(default_factory=dict)

    def note(self, trouble: str, place: str) -> None:
        """Count a line with this trouble; of the first one the place, with a reason, is kept."""
        n, first = self.troubles.get(trouble, (0, place))
        self.troubles[trouble] = n + 1, first


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of an answer file: the id, the answer, and the file with the number of the line."""

    key: bytes
    exchange: Exchange
    place: str


def import_answers(engine: Engine, folder: Path, tell: LineWriter) -> ImportedAnswers:
    """Store the answers in files `answers*.jsonl` of an export's folder, by their ids, in the cache of replies, and the
    attempts in the record of calls; return what was found. Answers that are stored already change nothing. Of two
    answers to a request the first valid one stays. tell: takes lines about progress.

    Raises RequestFilesUnusable for a folder without an export, and for one without an answer file.
    """
    written = read_written_requests(folder)
    files = sorted(folder.glob("answers*.jsonl"))
    if not files:
        raise RequestFilesUnusable(f"{folder} has no answers: have its requests answered into answers-00001.jsonl")
    found = ImportedAnswers(written.about, len(written.places))
    importer = _Importer(engine, written, found)
    lines = (line for file in files for line in _read_lines(file, found))
    while some := list(islice(lines, _LINES_AT_A_TIME)):
        importer.store(some)
        tell(f"{importer.n_seen:,} of {found.n_written:,} requests answered")
    found.n_open = importer.count_open()
    return found


class _Importer:
    """Stores answers to the written requests. n_seen: the requests to which these files have an answer so far."""

    def __init__(self, engine: Engine, written: WrittenRequests, found: ImportedAnswers) -> None:
        self.n_seen = 0
        self._is_seen = bytearray(len(written.places))
        self._has_reply = bytearray(len(written.places))
        self._written = written
        self._found = found
        self._replies = PostgresReplies(engine)
        self._import = PostgresImport(engine, written.run_id)
        self._failed_before = self._import.list_failed_requests()

    def store(self, lines: list[_Line]) -> None:
        """Store the answers in these lines that are new."""
        stored = {key: reply["outcome"] for key, reply in self._replies.load([line.key for line in lines]).items()}
        replies: dict[bytes, dict[str, Any]] = {}
        calls = []
        for line in lines:
            number = self._written.places.get(line.key)
            if number is None:
                self._found.note("to no request of this export: of another prompt, model or folder", line.place)
                continue
            if is_again := bool(self._is_seen[number]):
                self._found.note("a second answer to a request", line.place)
            self.n_seen += not is_again
            self._is_seen[number] = True
            self._has_reply[number] |= line.key in stored
            form = self._written.forms[self._written.form[number]]
            result = classify_answer(line.exchange, form.request, form.model)
            reason = result.reason
            if result.outcome != "ok":
                self._found.note(_TROUBLES[result.outcome], f"{line.place}: {reason}")
            if stored.get(line.key) == "ok" or (line.key in stored and result.outcome != "ok"):
                self._found.n_known += not is_again
                continue
            asked = {"request_sha256": line.key, "model": form.identity, "purpose": form.purpose}
            usage = compute_call_usage(*self._count_tokens(number, form, line.exchange, result), form.find_prices())
            if _is_reply(result):
                answer = {"outcome": result.outcome, "data": result.data, "reason": reason}
                replies[line.key] = {**asked, **answer, **asdict(usage)}
                stored[line.key], self._has_reply[number] = result.outcome, True
            elif line.key in self._failed_before:
                continue
            else:
                self._failed_before.add(line.key)
            self._found.n_by_outcome[result.outcome] += 1
            call = {**asked, "attempt": self._written.attempt[number]}
            calls.append(build_call(call, line.exchange, result.outcome, reason, usage))
        self._import.store(list(replies.values()), calls)

    def count_open(self) -> int:
        """Return the number of requests without a stored reply; those that the files do not answer are looked up."""
        places = ((key, number) for key, number in self._written.places.items() if not self._has_reply[number])
        n_open = 0
        while some := list(islice(places, _LINES_AT_A_TIME)):
            n_open += len(some) - len(self._replies.load([key for key, _ in some]))
        return n_open

    def _count_tokens(
        self, number: int, form: RequestForm, exchange: Exchange, result: AttemptResult
    ) -> tuple[int, int]:
        if result.tokens is None and exchange.status == 200:
            # The answer does not report them: estimated as by HTTP.
            tokens_out = min(estimate_byte_tokens(exchange.n_bytes), form.max_tokens)
            return self._written.tokens_in[number], tokens_out
        return result.tokens or (0, 0)


def _is_reply(result: AttemptResult) -> bool:
    """Whether an answer is a reply to its request: a valid one, or one that counts as an attempt of the model. Else the
    request is still to be answered.
    """
    if result.outcome == "rejected":
        could_mend = result.is_not_understood and Dialect().find_next_dialect(result.reason or "") is not None
        return result.is_request_fault and not could_mend
    return result.outcome in ("ok", "malformed", "truncated", "refused")


def _read_lines(file: Path, found: ImportedAnswers) -> Iterator[_Line]:
    """Yield the answers of a file in order. A line that cannot be read is noted."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            place = f"{file.name}, line {number:,}"
            if not line.strip():
                continue
            try:
                answer = hide_key(json.loads(line), None)
                key = _parse_id(answer["custom_id"])
                exchange = _parse_exchange(answer)
            except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
                found.note("not a whole line of a batch's output", place)
                continue
            yield _Line(key, exchange, place)


def _parse_id(custom_id: str) -> bytes:
    try:
        return bytes.fromhex(custom_id)
    except ValueError:
        # No id of ours.
        return b""


def _parse_exchange(answer: Mapping[str, Any]) -> Exchange:
    """Return the answer in a line of a batch runner's output as if it had come by HTTP.

    An error of the server is the body, or, from vLLM, an object in `error`. A mere text there is whatever went wrong in
    vLLM's runner, always with status 400: the request got no answer.

    >>> _parse_exchange({"response": {"status_code": 400}, "error": "engine died"}).error
    'no answer (engine died)'
    """
    response, error = answer.get("response") or {}, answer.get("error")
    status = response.get("status_code")
    body = response.get("body")
    if body is None and isinstance(error, Mapping) and response:
        body = error
    if body is not None and isinstance(status, int):
        return Exchange(status, body, len(json.dumps(body)))
    complaint, _ = parse_complaint(error if isinstance(error, Mapping) else {"error": error})
    return Exchange(error=f"no answer ({complaint or 'no reason given'})")
