"""Settings files of every kind: broken, spoilt and endless, named by REELSIEVE_CONFIG, or only lying in the folder.

A command reads a named one in time, or refuses it in one sentence that names the file or a variable; one that lies in
the folder sets nothing. Run it with `python -m tests.attack.settings_files`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import typer

from assets.home.settings import apply_settings_file
from orchestration.settings.groups import list_setting_fields
from tests.attack.campaign import Campaign, Seed, limited
from tests.command_line import Done, run_command
from tests.orchestration.conftest import forget_installation

HANGS_S = 30
SECRET = "s3cret-of-somebody"


def main(files: int = 1500, seed: Seed = None) -> None:
    """Try so many files."""
    campaign = Campaign("settings_files", seed)
    with TemporaryDirectory(prefix="reelsieve-attack-") as name:
        attack(Path(name), files, campaign)
    campaign.finish()


def attack(work: Path, files: int, campaign: Campaign) -> None:
    """Write so many settings files, and read each of them as a named one and as one that lies in the folder."""
    folder = work / "theirs"
    (folder / "model").mkdir(parents=True)
    before = Path.cwd()
    variables = {"XDG_CONFIG_HOME": str(work / "configuration"), "REELSIEVE_HOME": str(work / "home")}
    try:
        with patch.dict(os.environ, variables):
            os.environ.pop("CURATION_DB_URL", None)
            os.chdir(folder)
            for _ in range(files):
                _try(folder / "reelsieve.toml", campaign)
    finally:
        os.chdir(before)
        apply_settings_file({})
        forget_installation()


def _try(path: Path, campaign: Campaign) -> None:
    kind = campaign.random.choice(sorted(KINDS))
    path.write_bytes(KINDS[kind](campaign.random))
    shown = f"{kind} ({path.read_bytes()[:200]!r})"
    apply_settings_file({})
    with limited(HANGS_S):
        named, lying = (run_command("config", "--json", REELSIEVE_CONFIG=name) for name in (path.name, ""))
    _check_plain(shown, named, campaign)
    campaign.counts[f"{kind}: {'taken' if named.returncode == 0 else 'refused'}"] += 1
    campaign.expect(lying.returncode == 0 and not lying.stderr, f"{shown}: it counts in its folder: {lying.stderr}")
    origins = {row["from"] for row in json.loads(lying.stdout or "[]")}
    campaign.expect(origins == {"environment", "default"}, f"{shown}: values come from {origins}")


def _check_plain(shown: str, done: Done, campaign: Campaign) -> None:
    """One sentence with the file or a variable in it, or no word on standard error."""
    campaign.expect(done.returncode in (0, 1), f"{shown}: ended with {done.returncode}: {done.stderr}")
    if done.returncode:
        is_sentence = done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and not done.stdout
        campaign.expect(is_sentence, f"{shown}: no single sentence: {done.stdout}{done.stderr}")
        is_placed = "reelsieve.toml" in done.stderr or "REELSIEVE_" in done.stderr
        campaign.expect(is_placed, f"{shown}: nothing is named: {done.stderr}")
        campaign.expect(len(done.stderr) < 3000, f"{shown}: a sentence of {len(done.stderr)} letters")
    else:
        campaign.expect(not done.stderr, f"{shown}: said {done.stderr}")
    campaign.expect(SECRET not in done.stderr, f"{shown}: the secret was printed: {done.stderr}")


# The kinds of files.


def _value(random: Random) -> str:
    return random.choice(
        [
            *("1", "0", "-1", "1.5", "1e400", "nan", "-inf", "true", "[]", "{}", "1979-05-27", '""', '"fp32"', '"all"'),
            *(
                '"./model"',
                '"model"',
                '"BAAI/bge-m3"',
                '"a/b@abc1234"',
                '"../x"',
                '"/etc/passwd"',
                '"~/x"',
                '"sat:model"',
            ),
            *('"http://127.0.0.1:1/v1"', f'"postgresql://a:{SECRET}@h/d"', f'"postgresql://h/d?password={SECRET}"'),
            *('"AWS_SECRET_ACCESS_KEY"', '"a\\u0000b"', '"a\\nb"', '"\\u001b[31m"', '"normal"', '"sodam"', "[1, [2]]"),
            *("{a = 1}", '{a = "/x"}', "{a = [1, 2]}", '["10.0.0.0/8"]', '["team:x"]', "9" * random.choice([9, 4301])),
        ]
    )


def _keys(random: Random) -> bytes:
    """Settings by their names, with values of all kinds."""
    known = sorted(list_setting_fields())
    lines = [f"{random.choice(known)} = {_value(random)}" for _ in range(random.randint(1, 3))]
    if random.random() < 0.3:
        lines.insert(
            random.randint(0, len(lines)),
            random.choice(["[profile.gpu]", "[profile.x]", "[media_roots]", "[models.judge]"]),
        )
    return "\n".join(lines).encode()


def _usable(random: Random) -> bytes:
    """Settings with values that every one of them could have."""
    values = {
        name: json.dumps(field.default)
        for name, field in list_setting_fields().items()
        if field.default_factory is None
    }
    values |= {
        "home": '"h"',
        "models.text_encoder.model": random.choice(
            ['"./model"', '"model"', '"BAAI/bge-m3"', '"/models/x"', '"a/b@abc1234"']
        ),
        "models.ecs_verifier.model": random.choice(['"model"', '"lexical"', '"a/b"', '"a/b/c"']),
        "models.text_encoder.url": '"http://127.0.0.1:1/v1"',
        "models.text_encoder.key_variable": '"AWS_SECRET_ACCESS_KEY"',
        "models.qeva_text.model": random.choice(['"some-model"', '"./model"', '"model"']),
        "curation_db_url": '"postgresql://127.0.0.1:1/films"',
        "failure_command": '"touch trace"',
        "media_roots": '{clips = "s3://bucket"}',
        "media_cache": '"copies"',
        "media_private_networks": '["10.0.0.0/8"]',
        "good_ratings": "{consistency = 4}",
        "owners": '["team:x"]',
    }
    usable = sorted(name for name, value in values.items() if value != "null" and "{}" not in value)
    lines = [f"{name} = {values[name]}" for name in random.sample(usable, random.randint(1, 4))]
    return "\n".join(random.choice([[], [], ["[profile.x]"]]) + lines).encode()


def _spoilt(random: Random) -> bytes:
    """The same with bytes exchanged, cut out or put in."""
    text = bytearray(_keys(random))
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(text) + 1)
        text[place : place + random.randint(0, 3)] = bytes(
            random.choices(b"\x00\x1b\xff\"'[]{}=.#\\\r\n a", k=random.randint(0, 3))
        )
    return bytes(text)


def _deep(random: Random) -> bytes:
    depth, name = (
        random.choice([1, 7, 9, 100, 450, 990, 3000, 30_000]),
        random.choice(["media_roots", "x", "frames_cap"]),
    )
    shapes = [
        f"{name} = {'[' * depth}{']' * depth}",
        f"{name} = {'{a=' * depth}1{'}' * depth}",
        f"{name}.{'.'.join('a' * depth)} = 1",
        f"[{name}.{'.'.join('a' * depth)}]",
        f"[profile.{'.'.join('a' * depth)}]\nb = 1",
        f"{name} = {'[' * depth}",
    ]
    return random.choice(shapes).encode()


def _long(random: Random) -> bytes:
    length = random.choice([100, 5000, 60_000, 70_000, 1_000_000])
    shapes = [
        f"{'a' * length} = 1",
        f'"{"é" * (length // 2)}" = 1',
        f"frames_cap = {'1' * length}",
        f"vcs_lct = 0.{'1' * length}",
        f'models.text_encoder.model = "{"a" * length}"',
        "#" * length,
        "\n" * length,
        "frames_cap = 1\n" * (length // 15),
        f"[profile.{'b' * length}]\nframes_cap = 0",
        f"good_ratings = {{{', '.join(f'a{n} = {n}' for n in range(length // 12))}}}",
        f"frames_cap = 0x{'f' * length}",
    ]
    return random.choice(shapes).encode()


def _noise(random: Random) -> bytes:
    return random.choice(
        [random.randbytes(random.randint(0, 200)), "\ufeffframes_cap = 1".encode(), b"a = 1".ljust(99, b"\0")]
    )


KINDS: dict[str, Callable[[Random], bytes]] = {
    "keys": _keys,
    "usable": _usable,
    "spoilt": _spoilt,
    "deep": _deep,
    "long": _long,
    "noise": _noise,
}

if __name__ == "__main__":
    typer.run(main)
