"""The names of other tools whose output folders can become a manifest."""

from collections.abc import Mapping
from typing import Literal

Tool = Literal["curator", "cosmos", "data-juicer", "lance"]
TOOL_NAMES: Mapping[Tool, str] = {
    "curator": "NeMo Curator",
    "cosmos": "Cosmos-Curate",
    "data-juicer": "Data-Juicer",
    "lance": "Lance",
}
