"""The web interface as a person sees it: `reelsieve ui` in a browser, on an installation with a scored dataset."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psutil
import pytest

from orchestration.installation import PROJECT_FOLDER, get_installation
from orchestration.launch import run_conclusions, run_ingest, run_scoring, run_subset
from orchestration.stopping import STOPPED_MESSAGE
from orchestration.web.access import open_page_keys
from tests.browser import chromium, executable
from tests.orchestration.conftest import Installation
from tests.orchestration.foreign import Foreign, foreign, fresh_environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["foreign"]  # a fixture

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } }
}
"""
DATASET = "tiny"
SHARD = f"{DATASET}:0000"
# The longest way of the data.
LONGEST = ("ingest", "embeddings", "verdicts", "scores", "thresholds", "selection")
GROUPS = (*LONGEST, "facts", "judge", "questions", "reports", "views")
LEGIBLE_PX = 9
ASSETS = ("video", "sample", "text_embedding", "vcs_score", "threshold", "training_subset", "dataset_report")
# Generous: what is waited for takes seconds, on a busy machine a minute.
DEADLINE_S = 180.0
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def terminal(installation: Installation) -> Path:
    """What a person sees at the terminal."""
    return installation.home / "terminal.txt"


@pytest.fixture(scope="module")
def log(installation: Installation) -> Path:
    """Where the output of Dagster's processes goes."""
    return installation.home / "logs" / "ui.log"


@pytest.fixture(scope="module")
def is_here() -> None:
    """Asked for before the slow fixtures, so that a skip for want of a Chromium costs nothing."""
    executable()


@pytest.fixture(scope="module")
def browser(is_here: None, address: str) -> Generator[Browser, None, None]:
    """A Chromium, started after the jobs have run: its driver's event loop would disturb Dagster's."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(foreign: Foreign) -> Generator[Path, None, None]:
    """A folder of somebody else, of which nothing runs and where nothing is written."""
    with foreign.untouched():
        yield foreign.folder


@pytest.fixture(scope="module")
def address(installation: Installation, log: Path, terminal: Path, folder: Path) -> Generator[str, None, None]:
    """The address of `reelsieve ui` on an installation with a scored dataset; its processes end with the module."""
    run_ingest(get_installation(), installation.manifest, DATASET, None, 2)
    list(run_scoring(get_installation(), DATASET, ["vcs"]))
    run_conclusions(get_installation(), DATASET)
    run_subset(get_installation(), DATASET, {"by": "vcs", "keep": 0.5})
    port = free_port()
    # As a script's background job starts it: with SIGINT ignored. It must end on SIGTERM all the same.
    in_background = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    with terminal.open("wb") as output:
        server = subprocess.Popen(
            [*in_background, str(Path(sys.executable).with_name("reelsieve")), "ui", "--port", str(port)],
            cwd=folder,
            env=fresh_environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: server.poll() is not None or has_definitions(address), "the web interface to answer", log)
        assert server.poll() is None, terminal.read_text()
        yield address
        os.kill(server.pid, signal.SIGTERM)
        until(lambda: server.poll() is not None and not group_lives(server.pid), "every process to end", log)
        assert server.returncode == 128 + signal.SIGTERM
        assert terminal.read_text().splitlines() == [
            f"{address} in a moment; Ctrl-C ends it",
            "runs of commands are on the page Runs, not on the timeline",
            f"ready: {address}/?token={page_token()} (the log of Dagster is {log})",
            STOPPED_MESSAGE,
        ], "runs, ticks and requests leave no line at the terminal"
    finally:
        if group_lives(server.pid):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture
def page(browser: Browser, address: str) -> Generator[Page, None, None]:
    """A fresh page of the interface; it may ask nothing of any other machine."""
    asked: list[str] = []
    context = browser.new_context(base_url=address, viewport={"width": 1600, "height": 1000})
    page = context.new_page()
    page.goto(f"/?token={page_token()}")
    page.set_default_timeout(PATIENCE_MS)
    page.on("request", lambda request: asked.append(request.url))
    yield page
    context.close()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.fixture
def other_site() -> Generator[str, None, None]:
    """The address of a page of another origin: its port is another one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as site:
        threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


@pytest.mark.parametrize(
    ("width", "height"),
    [(1280, 800), *(pytest.param(*each, marks=pytest.mark.expensive) for each in ((1440, 900), (1920, 1080)))],
)
def test_the_first_page_shows_the_groups_in_the_order_of_the_data(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/")
    page.wait_for_url("**/asset-groups")
    names = {name["text"]: name for name in folded(page)}
    assert sorted(names) == sorted(GROUPS)
    for name in names.values():
        assert name["size"] >= LEGIBLE_PX, name
        assert 0 <= name["left"] < name["right"] <= width, name
        assert 0 <= name["top"] < name["bottom"] <= height, name
    others = (("ingest", "questions", "scores", "reports"), ("ingest", "facts", "views"), ("thresholds", "views"))
    for order in (LONGEST, *others):
        tops = [names[group]["top"] for group in order]
        assert tops == sorted(set(tops)), order
    assert page.evaluate("localStorage.getItem('asset-graph-direction')") == '"vertical"'


def test_the_first_page_folds_groups_that_were_open(page: Page) -> None:
    page.goto("/")
    folded(page)
    page.keyboard.press("Alt+KeyE")
    page.locator("svg").get_by_text("vcs_score", exact=True).first.wait_for()
    # Only when it loads does the page fit the graph to the window.
    page.reload()
    for asset in ASSETS:
        page.locator("svg").get_by_text(asset, exact=True).first.wait_for()
    page.goto("/")
    assert len(folded(page)) == len(GROUPS)


def folded(page: Page) -> list[dict[str, Any]]:
    """The names of the folded groups in the graph: text, edges, size of the letters; in pixels of the window."""
    page.locator("svg .group").first.wait_for()
    shown: list[dict[str, Any]] = page.locator("svg .group").evaluate_all("""groups => groups.map(group => {
        const name = [...group.querySelectorAll("div")].find(each => each.style.fontSize);
        const {left, right, top, bottom} = name.getBoundingClientRect();
        const size = parseFloat(getComputedStyle(name).fontSize) * (bottom - top) / name.offsetHeight;
        return {text: name.textContent, left, right, top, bottom, size};
    })""")
    return shown


def test_score_page_shows_counts_mean_makers_spread_and_extremes_at_once(page: Page) -> None:
    page.goto(f"/assets/vcs_score?view=partitions&partition={SHARD}")
    page.get_by_text(re.compile(r"^\d+ of \d+ captions have a score\.$")).wait_for()
    page.get_by_text(
        re.compile(r"^\d+ captions have none, too short: texts with so few chunks always score 0")
    ).wait_for()
    mean = page.locator("tr", has_text="mean vcs of captions")
    mean.get_by_text(
        re.compile(
            r"^0\.\d{3} from \d+ scores of \d+ videos; 95 % interval 0\.\d{3} to [01]\.\d{3} \(cluster-robust\)$"
        )
    ).wait_for()
    made_by = page.locator("tr", has_text="vcs made by")
    made_by.get_by_text(
        re.compile(r"^text encoder .+ \(revision [0-9a-f]{12}\); .+; code version \d+; scorer vcs@\d+$")
    ).wait_for()
    page.get_by_text("Materialized", exact=True).first.wait_for()
    spread = page.locator("tr", has_text="distribution")
    spread.get_by_role("columnheader", name="median").wait_for()
    assert spread.get_by_role("cell", name="1.0000", exact=True).count() >= 1, "faithful captions equal a reference"
    spread.get_by_text(re.compile("^[▁▂▃▄▅▆▇█]{24}$")).wait_for()
    extremes = page.locator("tr", has_text="best and worst")
    extremes.get_by_role("cell", name="faithful", exact=True).wait_for()
    extremes.get_by_role("cell", name="shuffled", exact=True).wait_for()


CHECKS = {
    "coverage": (
        "Every sample has a score or a reason",
        "(8 of 12|16 of 24) captions have a score, and [48] cannot have one",
    ),
    "in_range": (
        "Every defined score lies in the metric's range",
        "All (8|16) scores lie between 0 and 1: the lowest is",
    ),
    "not_constant": ("The defined scores are not all the same", "Too few scores to check: fewer than 20"),
    "inputs_fresh": (
        "No text or reference changed",
        "None of (12|24) captions was scored before its text or reference",
    ),
}


@pytest.mark.parametrize(
    "check", ["coverage", *(pytest.param(each, marks=pytest.mark.expensive) for each in CHECKS if each != "coverage")]
)
def test_checks_tab_shows_a_passed_check_in_words(page: Page, check: str) -> None:
    """Of the results of a run, which are one for every shard, Dagster shows any."""
    page.goto(f"/assets/vcs_score?view=checks&checkDetail={check}")
    page.get_by_text("This is a blocking asset check.").wait_for()
    for text in CHECKS[check]:
        page.get_by_text(re.compile(text)).first.wait_for()
    page.get_by_text(re.compile(f"^{DATASET}:000[01]$")).first.wait_for()
    page.get_by_text("Passed", exact=True).first.wait_for()
    page.get_by_text("Plots", exact=True).wait_for()
    assert page.locator("canvas").count() == 0, "there is no measurement to plot"


def test_runs_of_the_command_line_are_listed(page: Page) -> None:
    page.goto("/runs")
    for job in ("ingest_job", "scoring_job", "dataset_job"):
        page.get_by_text(job, exact=True).first.wait_for()
    page.get_by_text(re.compile("View all tags")).first.wait_for()
    assert page.get_by_text(re.compile("host|pid|leased")).count() == 0, "tags for the machine are no news for a person"


def test_samples_are_shown_beside_and_lead_back_to_the_asset_of_a_score(page: Page) -> None:
    page.goto(f"/look/{DATASET}")
    page.locator(".card .open").first.click()
    page.get_by_role("link", name="made by the asset vcs_score").click()
    page.wait_for_url("**/assets/vcs_score?**")
    page.get_by_text(SHARD).first.wait_for()


def test_a_choice_of_assets_runs_in_one_process(address: str, log: Path) -> None:
    parameters = run_parameters("__ASSET_JOB", DATASET)
    parameters["selector"]["assetSelection"] = [{"path": ["threshold"]}, {"path": ["agreement"]}]
    launched = ask(address, LAUNCH, params=parameters)["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    run_id = launched["run"]["runId"]
    until(lambda: run_of(run_id).is_finished, "the run to end", log)
    assert run_of(run_id).status == dg.DagsterRunStatus.SUCCESS
    steps = [event.dagster_event for event in get_installation().instance.all_logs(run_id) if event.dagster_event]
    of_steps = {event.pid for event in steps if event.is_step_start}
    assert len([event for event in steps if event.is_step_start]) == 2
    assert len(of_steps) == 1


@pytest.mark.expensive
def test_a_run_launched_from_the_interface_succeeds(address: str, log: Path) -> None:
    launched = ask(address, LAUNCH, params=run_parameters("dataset_job", DATASET))["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    run_id = launched["run"]["runId"]
    until(lambda: run_of(run_id).is_finished, "the run to end", log)
    assert run_of(run_id).status == dg.DagsterRunStatus.SUCCESS


def run_parameters(job: str, partition: str) -> dict[str, Any]:
    """What the interface sends to launch a job on a partition."""
    return {
        "selector": {
            "repositoryLocationName": "orchestration.definitions",
            "repositoryName": "__repository__",
            "jobName": job,
        },
        "runConfigData": "{}",
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": partition}]},
    }


def run_of(run_id: str) -> dg.DagsterRun:
    run = get_installation().instance.get_run_by_id(run_id)
    assert run is not None
    return run


def test_a_page_of_another_site_launches_no_run(browser: Browser, address: str, other_site: str) -> None:
    attack = """async ([graphql, query, variables]) => {
        const both = new URLSearchParams({query, variables});
        const body = JSON.stringify({query, variables: JSON.parse(variables)});
        const headers = {"Content-Type": "text/plain; application/json"};
        await fetch(`${graphql}?${both}`, {mode: "no-cors"}).catch(() => null);
        await fetch(`${graphql}?${both}`, {mode: "no-cors", method: "POST"}).catch(() => null);
        await fetch(graphql, {mode: "no-cors", method: "POST", headers, body}).catch(() => null);
        return await new Promise(resolve => {
            const socket = new WebSocket(graphql.replace("http", "ws"), "graphql-ws");
            socket.onopen = () => resolve("open");
            socket.onerror = () => resolve("refused");
        });
    }"""
    page = browser.new_page()
    page.goto(other_site)
    n_before = get_installation().instance.get_runs_count()
    variables = json.dumps({"params": run_parameters("dataset_job", DATASET)})
    assert page.evaluate(attack, [f"{address}/graphql", LAUNCH, variables]) == "refused"
    page.close()
    assert get_installation().instance.get_runs_count() == n_before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_a_foreign_request_is_refused(address: str, headers: dict[str, str], status: int) -> None:
    request = urllib.request.Request(
        f"{address}/graphql", b'{"query": "{ version }"}', {"Content-Type": "application/json", **headers}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    assert refused.value.code == status


def test_the_page_to_type_queries_into_works(page: Page) -> None:
    with page.expect_response(lambda answer: answer.request.method == "POST") as answer:
        page.goto("/graphql")
    assert (answer.value.url.endswith("/graphql"), answer.value.status) == (True, 200)


def test_its_processes_listen_on_loopback_only(address: str) -> None:
    port = int(address.rpartition(":")[2])
    listening = [each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    (server,) = [psutil.Process(each.pid) for each in listening if each.laddr.port == port]
    started = {server.pid, *(child.pid for child in server.children(recursive=True))}
    assert len(started) >= 3, "web server, code server and daemon"
    assert {each.laddr for each in listening if each.pid in started} == {("127.0.0.1", port)}


def test_the_checkout_stays_clean(address: str) -> None:
    assert ask(address, "{ version }")["version"]
    litter = {"storage", "history", "schedules", "logs", ".logs_queue", ".telemetry", ".nux"}
    assert not litter & {path.name for path in PROJECT_FOLDER.iterdir()}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def page_token() -> str:
    """The token of all pages of the home."""
    return open_page_keys(get_installation().home).sign()


def ask(address: str, query: str, **variables: Any) -> dict[str, Any]:
    """What the interface's GraphQL answers."""
    request = urllib.request.Request(
        f"{address}/graphql",
        data=json.dumps({"query": query, "variables": variables}).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {page_token()}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        data: dict[str, Any] = json.load(answer)["data"]
        return data


def has_definitions(address: str) -> bool:
    """Whether the web server answers and has loaded the definitions."""
    try:
        return bool(ask(address, "{ assetNodes { id } }")["assetNodes"])
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def group_lives(group: int) -> bool:
    """Whether any process of the group is left: web server, daemon, code server or their parent."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def until(happened: Callable[[], bool], what: str, log: Path) -> None:
    """Poll until something happened; after the deadline fail with the server's log."""
    end = time.monotonic() + DEADLINE_S
    while not happened():
        if time.monotonic() > end:
            said = log.read_text() if log.exists() else "no log"
            pytest.fail(f"waited {DEADLINE_S:.0f} s for {what}:\n{said}")
        time.sleep(0.2)
