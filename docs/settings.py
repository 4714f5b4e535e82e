"""Makes docs/settings.md from the settings, and the profiles in docs/models.md:  .venv/bin/python docs/settings.py"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from assets.home.settings import MODELS, PREFIX, NamedModel, format_variable_name, list_settings
from assets.models.profiles import PROFILES, ProfileModel
from orchestration.settings.groups import Settings, list_setting_fields, list_settings_groups

PAGE = Path(__file__).with_suffix(".md")
MODELS_PAGE = PAGE.with_name("models.md")
# What stands between them in docs/models.md is made here.
BEGIN, END = "<!-- made by docs/settings.py -->\n", "<!-- end -->\n"
INTRODUCTION = """# All settings

You set a setting in `reelsieve.toml` under its name, or in the environment as the variable `REELSIEVE_` and its name in
capital letters. The environment wins. `reelsieve config` shows which settings are in force and where they come from;
`reelsieve config init` writes a file with every setting as a comment. The file is `reelsieve.toml` in your account's
folder for configuration, on Linux `~/.config/reelsieve` (or in `XDG_CONFIG_HOME`). `--config FILE` before
a command, or the variable `REELSIEVE_CONFIG`, names another file instead: `reelsieve --config gpu.toml score mine`. An
unknown name in the file ends every command, with the name that was probably meant.

    frames_cap = 64

    [media_roots]
    clips = "/mnt/clips"

    [models.qeva_text]
    model = "gpt-4o"
    url = "https://api.openai.com/v1"
    key_variable = "OPENAI_API_KEY"
    price = [2.5, 10]

    [profile.gpu.models.image_text_encoder]
    model = "ViT-L-14-quickgelu"
    checkpoint = "dfn2b"
    precision = "bf16"

With `REELSIEVE_PROFILE=gpu` the values of `[profile.gpu]` come before the others, and single ones change a profile of
[models.md](models.md). A value that is JSON in a variable is a table or a list in the file. `failure_url`, which is a
secret, and `profile` can only be set in the environment.

A model is a table `[models.ROLE]` with the key `model` and others. The variable of another key is `REELSIEVE_`, role
and key: `REELSIEVE_QEVA_TEXT_URL`; but `REELSIEVE_IMAGE_TEXT_CHECKPOINT` and `_PRECISION`. A price holds for all roles
with a model of this name; if two differ, the higher one.

**Whose files count.** A settings file may send captions and keys to a server, load code, start a command or spend
money. Therefore no file counts because it lies in the folder in which you work, in one above it or in a home: name it
if you trust it. A file of another account (except root) is refused, and so is what is no regular file. A file has at
most 64 KiB and contains no password of a database. A relative path in it counts from its folder.

The page is made by `docs/settings.py`.
"""


def page() -> str:
    """The text of the page."""
    sections = [f"## {title}\n\n{table}" for title, table in _sections()]
    return "\n".join([INTRODUCTION, *sections])


def models_page() -> str:
    """The text of docs/models.md, its profiles made anew."""
    before, _, rest = MODELS_PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{profiles()}{END}{rest.partition(END)[2]}"


def profiles() -> str:
    """A table for each profile, with its agreement with people."""
    head = "| role | model | commit | licence | GB | for |\n|---|---|---|---|---|---|\n"
    parts = [
        f"**`{name}`**: {profile.meaning}. VATEX-EVAL: {profile.agreement}.\n\n"
        f"{head}{''.join(_model_row(role, model) for role, model in profile.models.items())}\n"
        for name, profile in PROFILES.items()
    ]
    return "\n".join(["", *parts])


def _model_row(role: str, model: ProfileModel) -> str:
    commit = f"`{model.commit[:12]}`" if model.commit else model.revision_note
    return f"| `{role}` | `{model.name}` | {commit} | {model.licence} | {model.size_text} | {model.purpose} |\n"


def _sections() -> Iterator[tuple[str, str]]:
    """Title and table of every class that declares settings; models and the installation's own come first."""
    known = list_setting_fields()
    declaring: list[type[BaseModel]] = [Settings]
    for group in list_settings_groups():
        declaring += [each for each in reversed(group.__mro__) if issubclass(each, BaseModel)]
    roles = {
        name: field
        for name, field in list_settings_groups()[0].model_fields.items()
        if isinstance(field.default, NamedModel)
    }
    yield "The models by role: `[models.ROLE]`", _models(roles)
    for each in dict.fromkeys(declaring):
        names = [name for name in inspect.get_annotations(each) if name in known]
        rows = [_row(name, known.pop(name)) for name in names]
        if rows:
            title = inspect.cleandoc(each.__doc__ or "").partition(".")[0]
            yield title, "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows, ""])


def _models(roles: Mapping[str, FieldInfo]) -> str:
    """A table of all roles with their default models, and one of the other keys."""
    rows = [
        f"| `{role}` (`{format_variable_name(f'{MODELS}.{role}.model')}`) | "
        f"{_default(field.default.model)} | {field.description} |"
        for role, field in roles.items()
    ]
    by_key: dict[str, list[str]] = {}
    for name, field in list_settings(list_settings_groups()[0]).items():
        _, role, key = (*name.split("."), "", "")[:3]
        if key not in ("", "model"):
            by_key.setdefault(_row(key, field), []).append(f"`{role}`")
    keys = [f"{row} {', '.join(of)} |" for row, of in by_key.items()]
    heads = "| role | model | meaning |\n|---|---|---|", "| key | default | meaning | roles |\n|---|---|---|---|"
    return "\n".join([heads[0], *rows, "", heads[1], *keys, ""])


def _default(value: Any) -> str:
    return "" if value in (None, "", ()) else f"`{value}`"


def _row(name: str, field: FieldInfo) -> str:
    default = "" if field.default_factory else _default(field.default)
    aside = f" (`{format_variable_name(name)}`)" if not format_variable_name(name).startswith(PREFIX) else ""
    choices = [f"`{choice}`" for choice in get_args(field.annotation) if isinstance(choice, str)]
    said = f"{', '.join(choices)}: {field.description}" if choices else str(field.description)
    return f"| `{name}`{aside} | {default} | {said} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    MODELS_PAGE.write_text(models_page(), encoding="utf-8")
