"""The files of `startproject --deploy` agree with the code and the docs, as far as a file can
show."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import django
import pytest
import yaml

from crawlframe import __version__
from crawlframe.conf import Settings
from crawlservice.management.commands.startproject import write_project
from tests.crawlservice.test_settings import page

CHECKOUT = Path(__file__).resolve().parent.parent
PROJECT = Path(tempfile.mkdtemp(prefix="cf-deploy-"))
atexit.register(shutil.rmtree, PROJECT, ignore_errors=True)
write_project(PROJECT / "shop", "shop", deploy=True)
DEPLOY = PROJECT / "shop" / "deploy"
GRACE = Settings().grace
# Of the images of PostgreSQL and Redis, not of Crawlframe.
OF_OTHERS = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_INITDB_ARGS", "REDISCLI_AUTH"}

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
KUBERNETES: list[dict[str, Any]] = list(
    yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
)
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def one(kind: str, name: str = "") -> dict[str, Any]:
    (found,) = (
        part
        for part in KUBERNETES
        if part["kind"] == kind and name in ("", part["metadata"]["name"])
    )
    return found


def pod(kind: str, name: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = one(kind, name)["spec"]["template"]["spec"]
    return spec


PODS = {"web": pod("Deployment"), "node": pod("StatefulSet"), "migrate": pod("Job")}


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text.removesuffix("s"))


# Variables


def test_every_variable_is_documented() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    used = set(re.findall(r"\$\{(\w+)", text))
    for service in SERVICES.values():
        used |= set(service.get("environment", ()))
    used |= set(one("ConfigMap")["data"]) | set(one("Secret")["stringData"])
    used |= {entry["name"] for entry in PODS["node"]["containers"][0]["env"]}
    for unit in UNITS:
        for line in re.findall(r"^Environment=(.*)", unit.read_text(), re.MULTILINE):
            used |= {pair.partition("=")[0] for pair in line.split()}
    used |= set(re.findall(r"\b([A-Z_]+)=", (DEPLOY / "Dockerfile").read_text()))
    ours = {name for name in used if not name.startswith(("PYTHON", "PATH"))} - OF_OTHERS
    assert "CRAWLFRAME_NODE" in ours
    assert ours - page().keys() == set()


def test_the_example_fills_in_what_the_compose_file_asks_for() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    example = (DEPLOY / "env.example").read_text()
    assert set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE)) == asked


def test_secrets_are_nowhere_but_in_the_file_of_secrets() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "CRAWLFRAME_SECRET_KEY"):
        assert f"${{{name}:?" in text  # without it nothing starts
        assert f"${{{name}:-" not in text
    assert "/deploy/.env" in (DEPLOY.parent / ".gitignore").read_text().splitlines()


# Compose


def test_redis_keeps_what_it_has_and_throws_nothing_away() -> None:
    command = SERVICES["redis"]["command"]
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command
    for name in ("redis", "postgres"):
        assert "ports" not in SERVICES[name]
        assert SERVICES[name]["volumes"][0].partition(":")[0] in COMPOSE["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_may_do_little_and_is_looked_after(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert "no-new-privileges:true" in service["security_opt"]
    if name != "migrate":
        assert service["healthcheck"]["test"]
        assert service["restart"] == "unless-stopped"
    if name in ("web", "node1", "node2", "migrate"):
        assert service["cap_drop"] == ["ALL"]


def test_the_web_and_nodes_wait_for_the_tables() -> None:
    for name in ("web", "node1", "node2"):
        waits = SERVICES[name]["depends_on"]
        assert waits["migrate"]["condition"] == "service_completed_successfully"
        assert waits["redis"]["condition"] == "service_healthy"
    assert SERVICES["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"


def test_two_nodes_have_two_names_and_all_else_alike() -> None:
    first, second = (dict(SERVICES[name]["environment"]) for name in ("node1", "node2"))
    assert {first.pop("CRAWLFRAME_NODE"), second.pop("CRAWLFRAME_NODE")} == {"node1", "node2"}
    assert first == second == SERVICES["web"]["environment"]


# Kubernetes


def test_names_in_kubernetes_agree() -> None:
    for name, spec in PODS.items():
        (container,) = spec["containers"]
        sources = [next(iter(source.values()))["name"] for source in container["envFrom"]]
        assert sources == [one("ConfigMap")["metadata"]["name"], one("Secret")["metadata"]["name"]]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}, name
        assert container["image"] == PODS["web"]["containers"][0]["image"]
    for kind, name in (("Deployment", "web"), ("StatefulSet", "node")):
        labels = one(kind)["spec"]["template"]["metadata"]["labels"]
        assert one(kind)["spec"]["selector"]["matchLabels"] == labels
        assert one("Service", name)["spec"]["selector"] == labels
    assert one("StatefulSet")["spec"]["serviceName"] == "node"
    space = one("Namespace")["metadata"]["name"]
    others = (part for part in KUBERNETES if part["kind"] != "Namespace")
    assert {part["metadata"]["namespace"] for part in others} == {space}


def test_nodes_keep_their_names() -> None:
    (entry,) = PODS["node"]["containers"][0]["env"]
    assert entry["name"] == "CRAWLFRAME_NODE"
    assert entry["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


@pytest.mark.parametrize("name", PODS)
def test_a_pod_may_do_little(name: str) -> None:
    spec = PODS[name]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert not spec["automountServiceAccountToken"]
    container = spec["containers"][0]["securityContext"]
    assert container["readOnlyRootFilesystem"]
    assert not container["allowPrivilegeEscalation"]
    assert container["capabilities"]["drop"] == ["ALL"]


def test_probes_ask_in_a_way_that_is_answered() -> None:
    web = PODS["web"]["containers"][0]
    for probe in ("startupProbe", "readinessProbe"):
        asked = web[probe]["httpGet"]
        assert asked["path"] == "/healthz"
        assert asked["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    # A web whose database is unreachable must not be restarted again and again.
    assert "httpGet" not in web["livenessProbe"]


# The versions and the workflow


def test_the_lock_has_the_versions_that_are_installed() -> None:
    lines = (DEPLOY.parent / "requirements.lock").read_text().splitlines()[1:]
    pins = dict(line.split("==") for line in lines)
    assert pins["crawlframe"] == __version__
    assert pins["Django"] == django.__version__
    assert "pip" not in pins


def test_the_workflow_installs_the_lock_and_runs_the_tests() -> None:
    workflow = yaml.safe_load((DEPLOY.parent / ".github/workflows/test.yml").read_text())
    steps = [step.get("run", "") for step in workflow["jobs"]["test"]["steps"]]
    assert any("-r requirements.lock" in step for step in steps)
    assert "python -m pytest" in steps


# All of them


def test_nodes_get_more_than_the_grace_time_to_stop() -> None:
    assert PODS["node"]["terminationGracePeriodSeconds"] > GRACE + 10
    assert float(one("ConfigMap")["data"]["CRAWLFRAME_GRACE"]) == GRACE
    for name in ("node1", "node2"):
        assert seconds(SERVICES[name]["stop_grace_period"]) > GRACE + 10
    unit = (DEPLOY / "systemd" / "crawlframe-node@.service").read_text()
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert float(stop) > GRACE + 10


def test_what_is_started_exists() -> None:
    commands = [service.get("command", []) for service in SERVICES.values()]
    commands += [spec["containers"][0].get("command", []) for spec in PODS.values()]
    commands += [SERVICES["node1"]["healthcheck"]["test"][1:]]
    commands += [PODS["node"]["containers"][0]["livenessProbe"]["exec"]["command"]]
    ours = [words for words in commands if "manage.py" in words]
    assert len(ours) == 7
    known = {path.stem for path in (CHECKOUT / "crawlservice/management/commands").glob("*.py")}
    assert {words[words.index("manage.py") + 1] for words in ours} <= known | {"migrate"}
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert 'CMD ["gunicorn", "-c", "python:crawlservice.web.server"]' in dockerfile
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(\S+)", dockerfile, re.MULTILINE)
    assert len(copied) == 4
    for name in copied:
        assert (DEPLOY.parent / name).exists()
        assert f"!{name}" in allowed
    assert re.search(r"^USER 10001$", dockerfile, re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_the_units(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text().replace("/opt/crawlframe/.venv/bin", str(Path(sys.executable).parent))
    copy = tmp_path / unit.name.replace("@", "@alpha")
    copy.write_text(text.replace("/opt/crawlframe", str(CHECKOUT)))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert unit.name.partition("@")[0] not in outcome.stderr, outcome.stderr
