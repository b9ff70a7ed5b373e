"""deploy/ by the tools that read it: promtool, a schema; the steps of the image, and systemd, in a fresh root."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.systems

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def ran(*command: str | Path, **options: object) -> str:
    found = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert found.returncode == 0, found.stdout + found.stderr
    return str(found.stdout + found.stderr)


def test_promtool_accepts_rules_and_configuration() -> None:
    promtool = tool("promtool")
    assert "12 rules found" in ran(promtool, "check", "rules", DEPLOY / "alerts.yaml")
    ran(promtool, "check", "config", "--syntax-only", DEPLOY / "prometheus.yaml")


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    promtool = tool("promtool")
    calm = {
        'swapcal_alarm{forecaster="calm"}': "0+0x200",
        'swapcal_gap_low{forecaster="calm",group="g = a"}': "-0.05+0x200",
        'swapcal_gap_high{forecaster="calm",group="g = a"}': "0.05+0x200",
        'swapcal_score_difference{forecaster="calm",score="own",end="low"}': "-0.01+0x200",
        'swapcal_unseen_share{forecaster="calm"}': "0.2+0x200",
        'swapcal_forecasts_total{forecaster="calm"}': "0+60x200",
        'swapcal_labels_total{forecaster="calm"}': "0+50x200",
        'up{job="swapcal",instance="a"}': "1+0x200",
        'swapcal_standing_by{job="swapcal",instance="a"}': "0+0x200",
        'swapcal_standing_by{job="swapcal",instance="b"}': "3+0x200",
        'swapcal_commit_failures_total{instance="a"}': "0+0x200",
        'swapcal_queue_refusals_total{instance="a"}': "0+0x200",
    }
    wrong = {
        'swapcal_alarm{forecaster="off"}': "1+0x200",
        'swapcal_gap_low{forecaster="off",group="g = a"}': "0.03+0x200",
        'swapcal_score_difference{forecaster="off",score="own",end="low"}': "0.01+0x200",
        'up{job="swapcal",instance="c"}': "0+0x200",
        'swapcal_commit_failures_total{instance="c"}': "0+1x200",
        'swapcal_queue_refusals_total{instance="c"}': "0+1x200",
    }
    fired = {
        "SwapcalAlarm": {"forecaster": "off"},
        "SwapcalGap": {"forecaster": "off", "group": "g = a"},
        "SwapcalWorseThanOwnModel": {"forecaster": "off", "score": "own", "end": "low"},
        "SwapcalDown": {"job": "swapcal", "instance": "c"},
        "SwapcalCommitsFail": {"instance": "c"},
        "SwapcalQueueFull": {"instance": "c"},
    }
    rules = (DEPLOY / "alerts.yaml").read_text(encoding="utf-8")
    severities = dict(re.findall(r"alert: (\w+).*?severity: (\w+)", rules, re.DOTALL))
    expected = [
        {
            "eval_time": "150m",
            "alertname": name,
            "exp_alerts": [{"exp_labels": {"severity": severities[name], **fired[name]}}] if name in fired else [],
        }
        for name in severities
    ]
    stripped = re.sub(r"        annotations:\n(?:          .*\n)+", "", rules)
    (tmp_path / "alerts.yaml").write_text(stripped, encoding="utf-8")
    series = [{"series": name, "values": values} for name, values in {**calm, **wrong}.items()]
    tests = [{"interval": "1m", "input_series": series, "alert_rule_test": expected}]
    (tmp_path / "tests.json").write_text(json.dumps({"rule_files": ["alerts.yaml"], "tests": tests}))
    ran(promtool, "test", "rules", tmp_path / "tests.json")


def test_the_compose_file_is_valid() -> None:
    ran(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    text = (DEPLOY / "swapcal.service").read_text(encoding="utf-8")
    unit = tmp_path / "swapcal.service"
    unit.write_text(text.replace("/opt/swapcal/bin/swapcal", tool("swapcal")), encoding="utf-8")
    assert ran(analyze, "verify", "--man=no", unit) == ""


class Image:
    """A root directory in which the instructions of a Dockerfile are executed, one after the other.

    `FROM` is Debian with its own Python 3.11, for the image python:3.11-slim.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.user = root, "root"
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self.env |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        self.env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.env["PIP_BREAK_SYSTEM_PACKAGES"] = "1"  # the image's Python is not managed by Debian
        self.commands: dict[str, list[str]] = {}

    def build(self, text: str) -> None:
        joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
        for line in filter(str.strip, joined.splitlines()):
            word, _, rest = line.strip().partition(" ")
            getattr(self, f"_{word.lower()}")(rest.strip())

    def inside(self, *command: str) -> list[str]:
        variables = [f"{name}={value}" for name, value in self.env.items()]
        return ["chroot", f"--userspec={self.user}", str(self.root), "/usr/bin/env", "-i", *variables, *command]

    def _from(self, image: str) -> None:
        assert image == "python:3.11-slim"
        packages = "--include=python3,python3-pip,python-is-python3,ca-certificates,systemd"
        ran(tool("debootstrap"), "--variant=minbase", packages, "bookworm", self.root)
        for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
            if Path(name).exists():
                shutil.copy(name, f"{self.root}{name}")

    def _env(self, text: str) -> None:
        self.env |= dict(part.split("=", 1) for part in shlex.split(text))

    def _run(self, text: str) -> None:
        ran(*self.inside("/bin/sh", "-c", text))

    def _copy(self, text: str) -> None:
        *sources, target = text.split()
        for source in (ROOT / name for name in sources):
            goal = Path(f"{self.root}{target}")
            if source.is_dir():
                shutil.copytree(source, goal, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                goal.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, goal)

    def _user(self, text: str) -> None:
        self.user = text
        self.env["HOME"] = "/data"

    def _entrypoint(self, text: str) -> None:
        self.commands["entrypoint"] = json.loads(text)

    def _healthcheck(self, text: str) -> None:
        self.commands["health"] = shlex.split(text.partition("CMD ")[2])

    def _ignored(self, text: str) -> None:
        pass

    _volume = _expose = _stopsignal = _ignored


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if os.geteuid() != 0:
        pytest.skip("only root can change the root directory")
    tool("debootstrap")
    root = tmp_path_factory.mktemp("image") / "root"
    root.mkdir()
    image = Image(root)
    image.build((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    yield image
    shutil.rmtree(root)


def test_the_steps_of_the_image_work_in_a_fresh_root(image: Image) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    health = [part.replace("8000", port) for part in image.commands["health"]]
    command = [*image.commands["entrypoint"], "--port", port]
    log = image.root.parent / "log"
    with open(log, "wb") as output:
        service = subprocess.Popen(image.inside(*command), stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120.0
        while subprocess.run(image.inside(*health), capture_output=True, check=False).returncode:
            assert service.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the health check did not succeed in time"
            time.sleep(0.5)
        token = ran(*image.inside("swapcal", "token", "create", "--scope", "read")).splitlines()[0]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        time.sleep(2.5)  # until a new token counts
        with urllib.request.urlopen(request) as answer:
            assert b"swapcal_queue_depth" in answer.read()
        assert "Usage: swapcal bridge" in ran(*image.inside("swapcal", "bridge", "--help"))
    finally:
        service.terminate()
        service.wait(60)
    assert service.returncode == 0


BOOT = """
mount --make-rprivate /
mount --bind {root} {root} && cd {root}
mount -t proc proc proc && mount -t sysfs sysfs sys && mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs tmpfs run && mount -t tmpfs tmpfs tmp && mount --rbind /dev dev
mkdir -p run/host && pivot_root . run/host && umount -l /run/host
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console
"""


INTO = ("--mount", "--uts", "--ipc", "--pid", "--cgroup", "--root", "--wd=/")


class Booted:
    """A root directory whose systemd is process 1 of namespaces of its own; only the network is shared."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root.parent / "boot.log"
        kinds = Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")
        self.process: subprocess.Popen[bytes] | None = None
        self.group = next((top for top in kinds if (top / "cgroup.procs").exists()), kinds[0]) / f"boot-{os.getpid()}"

    def start(self) -> None:
        try:
            self.group.mkdir()
        except OSError as error:
            pytest.skip(f"no group of processes can be made here: {error}")
        enter = f"echo 0 > {self.group}/cgroup.procs && exec unshare -pmuiC --fork --kill-child sh -ec '{BOOT}'"
        with open(self.log, "wb") as output:
            command = ["sh", "-c", enter.format(root=self.root)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        deadline = time.monotonic() + 20.0
        while self.run("systemctl", "is-system-running", "--wait").strip() not in ("running", "degraded"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"systemd does not start here: {self.log.read_text()[-500:]}")
            time.sleep(0.2)

    def run(self, *command: str) -> str:
        """Return the output of a command inside."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        into = ["nsenter", f"--target={children[0] if children else 0}", *INTO, *command]
        return subprocess.run(into, capture_output=True, text=True, check=False).stdout

    def property(self, name: str) -> str:
        return self.run("systemctl", "show", f"--property={name}", "--value", "swapcal").strip()

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.kill()  # and with it process 1, and with that all others
        self.process.wait(20)
        for folder, *_ in os.walk(self.group, topdown=False):
            for _ in range(100):
                try:
                    os.rmdir(folder)
                    break
                except OSError:  # the last processes in it are ending
                    time.sleep(0.05)


@pytest.fixture
def booted(image: Image) -> Iterator[Booted]:
    for name in ("unshare", "nsenter"):
        tool(name)
    (image.root / "opt/swapcal/bin").mkdir(parents=True)
    (image.root / "opt/swapcal/bin/swapcal").symlink_to(ran(*image.inside("which", "swapcal")).strip())
    ran("chroot", image.root, "userdel", "swapcal")  # that of the image; the unit makes one of its own
    booted = Booted(image.root)
    try:
        booted.start()
        yield booted
    finally:
        booted.stop()


PLACES = "/etc /usr /opt /home /root /var/lib /proc/sys /var/lib/swapcal /var/cache/swapcal /tmp"
WRITABLE = {"/var/lib/swapcal", "/var/cache/swapcal", "/tmp"}


def test_systemd_runs_the_unit_restarts_it_and_stops_it(booted: Booted) -> None:
    """The unit as it is, but for the port; the kernels in its cache are those of the image."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    unit = (DEPLOY / "swapcal.service").read_text(encoding="utf-8").replace("--port 8000", f"--port {port}")
    (booted.root / "etc/systemd/system/swapcal.service").write_text(unit, encoding="utf-8")
    booted.run("systemctl", "daemon-reload")
    booted.run("systemctl", "start", "swapcal")
    answers(port, "/readyz")
    answers(port, "/v1/forecasters", "POST", name="flights")
    answers(port, "/v1/forecasters/flights/forecasts", "POST", id="a", record={"hour": 17})

    process = booted.property("MainPID")
    assert int(booted.run("stat", "--format=%u", f"/proc/{process}")) > 0
    probe = f"for d in {PLACES}; do (echo > $d/probe && rm $d/probe && echo $d) 2>/dev/null; done"
    inside = ["nsenter", f"--target={process}", "--mount", "--root", "--wd=/"]
    assert {*booted.run(*inside, "sh", "-c", probe).split()} == WRITABLE, (
        "root could write there, as that service sees it"
    )
    assert not Path(f"{booted.root}/tmp/probe").exists()

    booted.run("sh", "-c", f"kill -9 {process}")
    time.sleep(1.0)
    answers(port, "/readyz")
    assert booted.property("NRestarts") == "1"
    assert answers(port, "/v1/forecasters/flights/outcomes/a", "PUT", y=1)["state"] == "learned"

    booted.run("systemctl", "stop", "swapcal")
    ended = [booted.property(name) for name in ("ActiveState", "Result", "ExecMainStatus")]
    assert ended == ["inactive", "success", "0"], booted.log.read_text()


def answers(port: str, path: str, method: str = "GET", **body: object) -> dict[str, Any]:
    """Return the answer of a service, which may just be starting."""
    content = json.dumps(body).encode() if body else None
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, headers, method=method)
    deadline = time.monotonic() + 60.0
    while True:
        try:
            with urllib.request.urlopen(request) as answer:
                text = answer.read()
                return dict(json.loads(text)) if text.startswith(b"{") else {}
        except OSError:
            assert time.monotonic() < deadline, f"{path} did not answer in time"
            time.sleep(0.2)
