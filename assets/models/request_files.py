"""Requests to chat models as files for batch runners: JSON lines of OpenAI's batch form, with a list of their ids."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias
from uuid import uuid4

from metrics_core.models.chat.json_answers import dump_ordered_json
from metrics_core.models.chat.outbox import OutgoingRequest
from metrics_core.models.chat.protocol import ChatRequest
from metrics_core.models.chat.token_estimates import estimate_tokens
from metrics_core.models.chat.wire import build_data_url
from metrics_core.models.server.spending import Prices

Pictures: TypeAlias = Literal["inline", "files"]
_MANIFEST, _IDS = "manifest.json", "ids.jsonl"
# Of one file; OpenAI's servers take no more.
_MAX_REQUESTS = 50_000
_URL = "/v1/chat/completions"


class RequestFilesUnusable(ValueError):
    """Raised for a folder that cannot take or has no written requests; the message says which folder to name."""

    plain = True


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The common part of written requests, by which their answers are read. model: the name at the server. identity:
    of the model, as plain data. prices: for a million tokens in and out, None where there are none.
    """

    purpose: str
    model: str
    identity: Mapping[str, Any]
    prompt_version: str
    schema: Mapping[str, Any]
    max_tokens: int
    expected: str | None
    prices: tuple[float, float] | None

    @property
    def request(self) -> ChatRequest:
        """A request of this form, without its texts and images."""
        return ChatRequest(
            self.purpose, "", (), self.schema, self.prompt_version, self.max_tokens, expected=self.expected
        )

    def find_prices(self) -> Prices | None:
        """Return the prices of the model; None where there are none."""
        return Prices(*self.prices) if self.prices else None


@dataclass
class RequestWriter:
    """An Outbox that writes requests into a folder: files `requests-00001.jsonl` of at most `max_bytes` each,
    `ids.jsonl` and, at the end of its `with` block, `manifest.json`. pictures: whether an image is part of its
    requests, or a file of folder `pictures` that they name. about: what the requests are for, by name. n_by_purpose,
    n_by_file: the requests written.

    A folder without a manifest is of an export that did not end. Raises RequestFilesUnusable for a folder with content.
    """

    folder: Path
    pictures: Pictures
    max_bytes: int
    about: Mapping[str, str]
    run_id: str = field(default_factory=lambda: str(uuid4()))
    n_by_purpose: Counter[str] = field(default_factory=Counter)
    n_by_file: list[int] = field(default_factory=list)
    _forms: dict[str, int] = field(default_factory=dict, repr=False)
    # The first eight bytes of the keys: of 10 million, two agree once in 400,000 exports, and the next export writes
    # the second of them.
    _written: set[bytes] = field(default_factory=set, repr=False)
    _open: ExitStack = field(default_factory=ExitStack, repr=False)
    _n_bytes: int = 0

    def __enter__(self) -> RequestWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise RequestFilesUnusable(f"folder {self.folder} is not empty: name a new folder for every export")
        self._ids = (self.folder / _IDS).open("w", encoding="utf-8")
        self._requests: TextIO | None = None
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for file in filter(None, (self._ids, self._requests)):
            file.close()
        if kind is None:
            manifest = {
                "run_id": self.run_id,
                **self.about,
                "n_by_purpose": dict(self.n_by_purpose),
                "n_by_file": {self._name_file(number): n for number, n in enumerate(self.n_by_file, 1)},
                "forms": [json.loads(form) for form in self._forms],
            }
            (self.folder / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")

    @property
    def name(self) -> str:
        """The folder, for messages."""
        return str(self.folder)

    def put(self, outgoing: OutgoingRequest) -> None:
        """Write a request, unless it was written before."""
        if (start := outgoing.key[:8]) in self._written:
            return
        self._written.add(start)
        place_picture = build_data_url if self.pictures == "inline" else self._write_picture
        asked = {"custom_id": outgoing.key.hex(), "method": "POST", "url": _URL}
        # ASCII only, as requests by HTTP are.
        line = json.dumps({**asked, "body": outgoing.build_body(place_picture)}, allow_nan=False) + "\n"
        self._choose_file(len(line)).write(line)
        form, request = self._number_form(outgoing), outgoing.request
        known = {"form": form, "attempt": outgoing.attempt, "tokens_in": estimate_tokens(request)}
        self._ids.write(json.dumps({"custom_id": outgoing.key.hex(), **known}) + "\n")
        self.n_by_purpose[request.purpose] += 1

    def _choose_file(self, n_bytes: int) -> TextIO:
        is_full = self._n_bytes + n_bytes > self.max_bytes or self.n_by_file[-1:] == [_MAX_REQUESTS]
        if self._requests is None or is_full:
            if self._requests is not None:
                self._requests.close()
            self.n_by_file.append(0)
            self._n_bytes = 0
            self._requests = (self.folder / self._name_file(len(self.n_by_file))).open("w", encoding="utf-8")
        self._n_bytes += n_bytes
        self.n_by_file[-1] += 1
        return self._requests

    @staticmethod
    def _name_file(number: int) -> str:
        return f"requests-{number:05d}.jsonl"

    def _number_form(self, outgoing: OutgoingRequest) -> int:
        request, prices = outgoing.request, outgoing.prices
        form = RequestForm(
            request.purpose,
            outgoing.model,
            outgoing.identity.as_dict(),
            request.prompt_version,
            request.schema,
            request.max_tokens,
            request.expected,
            (prices.per_million_in, prices.per_million_out) if prices else None,
        )
        return self._forms.setdefault(dump_ordered_json(asdict(form)), len(self._forms))

    def _write_picture(self, jpeg: bytes) -> str:
        """Write an image once, and return its address. All requests about a video share its files."""
        name = hashlib.sha256(jpeg).hexdigest()
        path = self.folder.resolve() / "pictures" / name[:2] / f"{name}.jpg"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg)
        return path.as_uri()


@dataclass(frozen=True, slots=True)
class WrittenRequests:
    """The requests that an export wrote, without their texts. places: the number of each request by its id; form,
    attempt and tokens_in have a value for every number. about: what the requests are for, by name.
    """

    run_id: str
    about: Mapping[str, str]
    forms: tuple[RequestForm, ...]
    places: Mapping[bytes, int]
    form: array[int]
    attempt: array[int]
    tokens_in: array[int]


def read_written_requests(folder: Path) -> WrittenRequests:
    """Read which requests an export wrote into a folder. Raises RequestFilesUnusable where there is none that ended."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        forms = tuple(RequestForm(**form) for form in manifest.pop("forms"))
        places: dict[bytes, int] = {}
        form, attempt, tokens_in = array("L"), array("B"), array("Q")
        with (folder / _IDS).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                known = json.loads(line)
                places[bytes.fromhex(known["custom_id"])] = number
                form.append(known["form"])
                attempt.append(known["attempt"])
                tokens_in.append(known["tokens_in"])
        about = {name: value for name, value in manifest.items() if isinstance(value, str)}
        return WrittenRequests(manifest["run_id"], about, forms, places, form, attempt, tokens_in)
    except FileNotFoundError as error:
        raise RequestFilesUnusable(
            f"{folder} has no {Path(error.filename).name}: name the folder of a `reelsieve requests export` that ended"
        ) from None
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise RequestFilesUnusable(
            f"{folder} was changed after its export ({type(error).__name__}: {error}): export again into a new folder"
        ) from None
