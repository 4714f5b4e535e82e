"""docs/examples/score.sbatch under Slurm: `python -m benchmarks.slurm [--tasks 4]`, some minutes, as root.

It needs Debian's slurm-wlm and munge. The program starts munged, slurmctld and slurmd itself, on loopback, as one node
that claims as many cores as there are tasks, and ends them. The database is a server on 127.0.0.1, reached by URL. A
dataset is scored by a single task, and again from nothing by an array, one of whose tasks is cancelled once all have
stored scores. The others must take over its shards, and every score must be stored once and equal that of the single
task.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from benchmarks.measure import RESULTS, save_with_load
from benchmarks.ray_engine import write_manifest

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "examples" / "score.sbatch"
DAEMONS = ("munged", "slurmctld", "slurmd")
COMMAND = Path(sys.executable).with_name("reelsieve")
DATASET, N_SHARDS = "slurm", 32
SCORED = f"sample_scores WHERE dataset = '{DATASET}' AND vcs IS NOT NULL"
DEADLINE_S = 900.0
CONFIGURATION = """
ClusterName=reelsieve
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny
NodeName=localhost NodeAddr=127.0.0.1 CPUs={tasks} RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Cluster:
    """A Slurm of one node, reached by the environment of its commands."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *command: str) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def submit(self, tasks: int, *arguments: str) -> str:
        """Submit the page's script as an array of so many tasks of one core; its number."""
        options = (f"--array=0-{tasks - 1}", "--cpus-per-task=1", "--mem=0", f"--output={self.folder}/%A_%a.out")
        return self.run("sbatch", "--parsable", *options, str(SCRIPT), *arguments).strip()

    def list_states(self, job: str) -> Counter[str]:
        """How many tasks of an array are in which state."""
        return Counter(re.findall(r"JobState=(\w+)", self.run("scontrol", "show", "job", job)))


@contextmanager
def started_cluster(folder: Path, tasks: int, variables: Mapping[str, str]) -> Iterator[Cluster]:
    """Start Slurm in a folder, and end it. variables: what its jobs see in addition to this process's environment."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=16817, slurmd_port=16818, tasks=tasks))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    environment = {**os.environ, "SLURM_CONF": str(configuration), **variables}
    munge = ("--foreground", f"--key-file={key}", f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid")
    commands = {
        "munged": (*munge, f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log", "--force"),
        "slurmctld": ("-D", "-c"),
        "slurmd": ("-D", "-N", "localhost"),
    }
    cluster = Cluster(folder, environment)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for daemon in DAEMONS:
            log = (folder / f"{daemon}.out").open("wb")
            process = subprocess.Popen([daemon, *commands[daemon]], env=environment, stdout=log, stderr=log)
            processes.append(process)
            time.sleep(1)
            if process.poll() is not None:
                raise SystemExit(f"{daemon} ended: {(folder / f'{daemon}.out').read_text()}")
        wait_for(lambda: "idle" in cluster.run("sinfo", "--noheader", "--format=%T"), "the node is idle")
        yield cluster
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(30)


@contextmanager
def listening_server(home: Path) -> Iterator[str]:
    """The URL, with a password, of a server on 127.0.0.1 that stops at the end."""
    reelsieve = (str(COMMAND), "--home", str(home), "db")
    subprocess.run([*reelsieve, "start", "--listen"], check=True, capture_output=True)
    try:
        yield subprocess.run([*reelsieve, "url", "--owner"], check=True, capture_output=True, text=True).stdout.strip()
    finally:
        subprocess.run([*reelsieve, "stop"], check=True, capture_output=True)


def wait_for(condition: Callable[[], bool], what: str) -> float:
    """Wait until the condition holds; the seconds that it took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > DEADLINE_S:
            raise SystemExit(f"waited {DEADLINE_S:g} s for this: {what}")
        time.sleep(0.2)
    return time.monotonic() - started


def read_scores(engine: Engine) -> dict[str, float]:
    """Values of `vcs` by the sample's key."""
    with engine.connect() as connection:
        return {row.sample: row.vcs for row in connection.exec_driver_sql(f"SELECT sample, vcs FROM {SCORED}")}


def count_scores_by_task(engine: Engine) -> list[int]:
    """How many scores of `vcs` every task has stored, most first."""
    query = "SELECT count(*) AS n FROM score JOIN scorer USING (scorer_id) WHERE metric = 'vcs' GROUP BY run_id"
    with engine.connect() as connection:
        return sorted(connection.exec_driver_sql(query).scalars(), reverse=True)


def ingest(cluster: Cluster, n_videos: int) -> None:
    """Store a dataset of texts."""
    manifest = write_manifest(cluster.folder / DATASET, n_videos)
    command = [str(COMMAND), "ingest", str(manifest), "-d", DATASET, "--shards", str(N_SHARDS), "--json"]
    subprocess.run(command, env=cluster.environment, check=True, capture_output=True)


def measure(cluster: Cluster, engine: Engine, tasks: int, n_videos: int) -> dict[str, Any]:
    """Score the dataset by one task, and from nothing by an array of which a task is cancelled; what happened."""
    found: dict[str, Any] = {"tasks": tasks, "captions": 2 * n_videos, "shards": N_SHARDS}
    arguments = ("--dataset", DATASET, "--metric", "vcs")
    ingest(cluster, n_videos)
    single = cluster.submit(1, *arguments)
    found["one_task_s"] = wait_for(lambda: is_over(cluster, single), "the single task has ended")
    found["one_task_states"] = dict(cluster.list_states(single))
    one = read_scores(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE scorer, model CASCADE")

    job = cluster.submit(tasks, *arguments)
    wait_for(lambda: len(count_scores_by_task(engine)) == tasks, "scores of every task")
    found["scores_at_the_cancelling"] = count_scores_by_task(engine)
    cluster.run("scancel", f"{job}_0")
    found["array_s_after_it"] = wait_for(lambda: is_over(cluster, job), "the array has ended")
    found["array_states"] = dict(cluster.list_states(job))
    found["scores_by_task"] = count_scores_by_task(engine)

    array = read_scores(engine)
    if not len(one) == len(array) == 2 * n_videos == sum(found["scores_by_task"]):
        raise SystemExit(f"{len(one)} scores by one task, {len(array)} by the array, of {2 * n_videos}")
    found["largest_difference"] = max(abs(one[sample] - array[sample]) for sample in one)
    return found


def is_over(cluster: Cluster, job: str) -> bool:
    """Whether no task of an array waits or runs."""
    return not {"PENDING", "RUNNING", "COMPLETING"} & cluster.list_states(job).keys()


def main() -> None:
    """Start everything, measure, write the result and end everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--videos", type=int, default=1500)
    parser.add_argument("--json", type=Path, default=RESULTS / "slurm.json")
    given = parser.parse_args()
    missing = [name for name in (*DAEMONS, "sbatch") if shutil.which(name) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)} missing: apt-get install slurm-wlm munge")
    before = os.getloadavg()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reelsieve-slurm-")))
        folder.chmod(0o711)  # the server runs as another user than root
        url = stack.enter_context(listening_server(folder / "server"))
        file = folder / "reelsieve.url"
        file.write_text(f"{url}\n")
        file.chmod(0o600)
        variables = {
            "HOME": str(folder),
            "REELSIEVE_HOME": str(folder / "home"),
            "PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}",
            "CURATION_DB_URL": url,
        }
        cluster = stack.enter_context(started_cluster(folder, given.tasks, variables))
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
        stack.callback(engine.dispose)
        found = measure(cluster, engine, given.tasks, given.videos)
        found["slurm"] = cluster.run("sinfo", "--version").strip()
    print(json.dumps(found, indent=1))
    save_with_load(given.json, found, before)


if __name__ == "__main__":
    main()
