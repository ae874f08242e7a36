"""The manifests of Kubernetes: valid by its schemas, in step with images, settings, metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from lakequeue import metrics
from lakequeue.settings import Settings, meanings, variable
from tests.support.deployed.images import ROLES, instruction, stage

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
VERSIONS = ("1.31.0", "1.37.0")
Manifest = dict[str, Any]


def documents(path: Path) -> list[Manifest]:
    return list(yaml.safe_load_all(path.read_text()))


def base() -> list[Manifest]:
    listed = documents(FOLDER / "base" / "kustomization.yaml")[0]["resources"]
    found = sorted(p.name for p in (FOLDER / "base").iterdir() if p.name != "kustomization.yaml")
    assert sorted(listed) == found, "each file is part of the base"
    return [one for name in listed for one in documents(FOLDER / "base" / name)]


BASE = base()
WORKER = documents(FOLDER / "example" / "worker.yaml")


def of_kind(kind: str, among: list[Manifest] = BASE) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in among if one["kind"] == kind}


def patched(manifest: Manifest) -> Manifest:
    """With TLS: what the component's operations make of a StatefulSet."""
    result = deepcopy(manifest)
    for patch in documents(FOLDER / "tls" / "kustomization.yaml")[0]["patches"]:
        if patch["target"]["name"] != manifest["metadata"]["name"]:
            continue
        text = patch.get("patch") or (FOLDER / "tls" / patch["path"]).read_text()
        for operation in yaml.safe_load(text):
            *way, last = operation["path"].strip("/").split("/")
            place: Any = result
            for step in way:
                place = place[int(step) if isinstance(place, list) else step]
            if last == "-":
                place.append(operation["value"])
            elif operation["op"] == "replace":
                place[int(last) if isinstance(place, list) else last] = operation["value"]
            else:
                assert last not in place
                place[last] = operation["value"]
    return result


NODES = {n: s for n, s in of_kind("StatefulSet").items() if n in ROLES}
CONSOLE = of_kind("Deployment")["console"]
CONSOLE_WITH_TLS = patched(CONSOLE)
WITH_TLS = [patched(one) for one in NODES.values()]


def container(manifest: Manifest) -> Manifest:
    (one,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(one)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid(version: str) -> None:
    for manifest in [*BASE, *WITH_TLS, CONSOLE_WITH_TLS, *WORKER]:
        kubernetes_validate.validate(manifest, version, strict=True)
    wrong = deepcopy(NODES["ingest"])
    wrong["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize(("role", "port"), ROLES.items())
def test_a_pod_runs_what_the_image_runs(role: str, port: int) -> None:
    one = container(NODES[role])
    assert "command" not in one, "the entry point is the image's"
    assert one["args"] == instruction("CMD", stage(role))
    assert one["ports"] == [{"name": "http", "containerPort": port}]
    assert one["image"] == f"lakequeue-{role}"
    pod = NODES[role]["spec"]["template"]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    assert f"USER {pod['spec']['securityContext']['runAsUser']}\n" in stage(role)
    for name in (role, f"{role}-nodes"):
        (exposed,) = of_kind("Service")[name]["spec"]["ports"]
        assert exposed["port"] == port
    written = {mount["mountPath"] for mount in one["volumeMounts"] if not mount.get("readOnly")}
    assert written == {"/var/lib/lakequeue", "/tmp"}
    assert "LAKEQUEUE_WORK_DIR=/var/lib/lakequeue" in stage("base")


@pytest.mark.parametrize("manifests", [[CONSOLE, *NODES.values()], [CONSOLE_WITH_TLS, *WITH_TLS]])
def test_variables_are_settings_and_files_are_mounted(manifests: list[Manifest]) -> None:
    known = {variable(name) for name in meanings()} | {"LAKEQUEUE_CA"}
    for manifest in manifests:
        one = container(manifest)
        given = {entry["name"]: entry.get("value", "") for entry in one["env"]}
        assert given.keys() <= known
        mounted = tuple(mount["mountPath"] + "/" for mount in one["volumeMounts"])
        for value in given.values():
            assert not value.startswith("/") or value.startswith(mounted)
    overlay = documents(FOLDER / "example" / "kustomization.yaml")[0]
    (generated,) = overlay["configMapGenerator"]
    names = {literal.partition("=")[0] for literal in generated["literals"]}
    assert names <= known | {"AWS_REGION"}
    assert {"LAKEQUEUE_ROOT", "LAKEQUEUE_ZOOKEEPER"} <= names
    used = {container(one)["image"] for one in [CONSOLE, *NODES.values()]}
    assert {image["name"] for image in overlay["images"]} == used
    worker = container(of_kind("Deployment", WORKER)["billing"])
    assert {entry["name"] for entry in worker["env"]} <= known | {"LAKEQUEUE_API_KEY_FILE"}


@pytest.mark.parametrize(("scheme", "manifests"), [("http", BASE), ("https", WITH_TLS)])
def test_a_node_says_the_url_at_which_others_reach_it(
    scheme: str, manifests: list[Manifest]
) -> None:
    for role in ("ingest", "consumer"):
        manifest = of_kind("StatefulSet", manifests)[role]
        headless = manifest["spec"]["serviceName"]
        assert of_kind("Service")[headless]["spec"]["clusterIP"] == "None"
        assert of_kind("Service")[headless]["spec"]["publishNotReadyAddresses"] is True
        env = {entry["name"]: entry for entry in container(manifest)["env"]}
        assert env["LAKEQUEUE_NODE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
        url = env[f"LAKEQUEUE_{role.upper()}__URL"]["value"]
        assert url == f"{scheme}://$(LAKEQUEUE_NODE).{headless}.lakequeue.svc:{ROLES[role]}"


@pytest.mark.parametrize(("scheme", "manifest"), [("http", CONSOLE), ("https", CONSOLE_WITH_TLS)])
def test_the_console_finds_the_services_and_the_drivers(scheme: str, manifest: Manifest) -> None:
    env = {entry["name"]: entry.get("value", "") for entry in container(manifest)["env"]}
    for role in ("ingest", "consumer"):
        assert (
            env[f"LAKEQUEUE_{role.upper()}__URL"]
            == f"{scheme}://{role}.lakequeue.svc:{ROLES[role]}"
        )
    drivers = of_kind("StatefulSet")["driver"]["spec"]
    nodes = [f"driver-{n}.{drivers['serviceName']}" for n in range(drivers["replicas"])]
    urls = [f"{scheme}://{name}.lakequeue.svc:{ROLES['driver']}" for name in nodes]
    assert json.loads(env["LAKEQUEUE_CONSOLE__DRIVERS"]) == urls
    (policy,) = (
        one for one in of_kind("NetworkPolicy").values() if one["metadata"]["name"] == "drivers"
    )
    assert policy["spec"]["ingress"][0]["from"] == [
        {"podSelector": {"matchLabels": {"app": "console"}}}
    ]


def test_the_console_runs_what_its_image_runs_and_holds_nothing() -> None:
    pod, one = CONSOLE["spec"]["template"]["spec"], container(CONSOLE)
    assert instruction("ENTRYPOINT", stage("cli")) == ["lakequeue"]
    assert one["args"] == ["console", "--host", "0.0.0.0", "--port", "8083"]
    compose = yaml.safe_load((FOLDER.parent / "compose.yml").read_text())["services"]["console"]
    assert compose["command"] == one["args"]
    assert f"USER {pod['securityContext']['runAsUser']}\n" in stage("cli")
    (exposed,) = of_kind("Service")["console"]["spec"]["ports"]
    assert exposed["port"] == one["ports"][0]["containerPort"] == Settings().console.port
    assert all("emptyDir" in volume for volume in pod["volumes"])
    assert "lakequeue-zookeeper" not in json.dumps(CONSOLE), "it does not speak to ZooKeeper"


def test_a_busy_node_is_not_killed() -> None:
    """Only what says nothing at all for a minute is started anew; readiness never ends a node."""
    for role, manifest in [*NODES.items(), ("zookeeper", of_kind("StatefulSet")["zookeeper"])]:
        one = container(manifest)
        alive, start, ready = (one[f"{k}Probe"] for k in ("liveness", "startup", "readiness"))
        assert alive["periodSeconds"] * alive["failureThreshold"] >= 60
        assert start["periodSeconds"] * start["failureThreshold"] >= 150
        assert min(probe["timeoutSeconds"] for probe in (alive, start, ready)) >= 5
        if role in ROLES:
            paths = [probe["httpGet"]["path"] for probe in (alive, start, ready)]
            assert paths == ["/healthz", "/healthz", "/readyz"]
        assert one["resources"]["limits"]["memory"] == one["resources"]["requests"]["memory"]
        assert "cpu" not in one["resources"]["limits"], "a throttled node misses its leases"


def test_no_more_than_one_of_a_kind_is_taken_away_at_once() -> None:
    budgets = of_kind("PodDisruptionBudget")
    assert budgets.keys() == of_kind("StatefulSet").keys()
    for name, budget in budgets.items():
        pod = of_kind("StatefulSet")[name]["spec"]["template"]["metadata"]["labels"]
        assert budget["spec"]["selector"]["matchLabels"].items() <= pod.items()
        assert budget["spec"]["maxUnavailable"] == 1
    assert of_kind("StatefulSet")["zookeeper"]["spec"]["replicas"] == 3


def test_the_servers_of_zookeeper_are_named_alike_everywhere() -> None:
    ensemble = of_kind("StatefulSet")["zookeeper"]
    hosts = [f"zookeeper-{n}.{ensemble['spec']['serviceName']}" for n in range(3)]
    env = {entry["name"]: entry["value"] for entry in container(ensemble)["env"]}
    servers = [f"server.{n}={host}:2888:3888;2181" for n, host in enumerate(hosts, 1)]
    assert env["ZOO_SERVERS"].split() == servers
    overlay = documents(FOLDER / "example" / "kustomization.yaml")[0]
    literals = dict(line.split("=", 1) for line in overlay["configMapGenerator"][0]["literals"])
    assert literals["LAKEQUEUE_ZOOKEEPER"] == ",".join(f"{host}:2181" for host in hosts)
    compose = yaml.safe_load((FOLDER.parent / "compose.yml").read_text())
    assert container(ensemble)["image"] == compose["services"]["zookeeper-1"]["image"]


def _allowed(policy: Manifest) -> Iterator[tuple[str, str]]:
    """(pod, port) that a policy opens."""
    selector = policy["spec"]["podSelector"]
    for name, manifest in of_kind("StatefulSet").items():
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        one_of = selector.get("matchExpressions", [])
        if not selector.get("matchLabels", {}).items() <= labels.items():
            continue
        if any(labels.get(e["key"]) not in e["values"] for e in one_of):
            continue
        for rule in policy["spec"].get("ingress", []):
            yield from ((name, entry["port"]) for entry in rule["ports"])


def test_nothing_comes_in_but_what_is_opened() -> None:
    policies = of_kind("NetworkPolicy")
    shut = policies["nothing-else"]["spec"]
    assert (shut["podSelector"], shut.get("ingress")) == ({}, None)
    opened = {pair for policy in policies.values() for pair in _allowed(policy)}
    there = {
        (name, port["name"])
        for name, manifest in of_kind("StatefulSet").items()
        for port in container(manifest)["ports"]
    }
    assert opened == there
    assert set(_allowed(policies["services"])) == {("ingest", "http"), ("consumer", "http")}
    for rule in policies["zookeeper"]["spec"]["ingress"]:
        assert all("namespaceSelector" not in who for who in rule["from"])


def test_what_scales_exists() -> None:
    for one in of_kind("HorizontalPodAutoscaler").values():
        assert one["spec"]["scaleTargetRef"]["name"] in NODES
    (worker,) = of_kind("HorizontalPodAutoscaler", WORKER).values()
    (by,) = worker["spec"]["metrics"]
    asked, lag = by["external"]["metric"], metrics.driver.GROUP_LAG
    assert asked["name"] == lag.name
    assert set(asked["selector"]["matchLabels"]) <= set(lag.labels)


def test_no_pod_may_do_more_than_it_needs() -> None:
    for manifest in [CONSOLE, *of_kind("StatefulSet").values()]:
        pod, one = manifest["spec"]["template"]["spec"], container(manifest)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert one["securityContext"]["allowPrivilegeEscalation"] is False
    assert "secretKeyRef" not in json.dumps(BASE), "secrets are files, and in no list of processes"
    assert not re.search(r"password=|--password", json.dumps(BASE))
