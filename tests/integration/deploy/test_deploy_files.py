"""Images, compose file and workflow fit each other and the code: checked without building any."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakequeue.settings import Settings, meanings, variable
from tests.support.deployed.images import DOCKERFILE, REPOSITORY, ROLES, instruction, stage

DEPLOY = REPOSITORY / "deploy"
TOOLS = Path(sys.executable).parent
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())
WORKFLOW = REPOSITORY / ".github" / "workflows" / "ci.yml"


def built() -> dict[str, Any]:
    """The services whose images are ours."""
    return {name: s for name, s in COMPOSE["services"].items() if "build" in s}


def image(name: str, **given: str) -> str:
    """What the image of a service is called, by variables that are `given` to compose."""

    def value(found: re.Match[str]) -> str:
        return given.get(found[1]) or found[2]

    text: str = COMPOSE["services"][name]["image"]
    return re.sub(r"\$\{(\w+):-(\w*)\}", value, text)


def services(prefix: str) -> dict[str, Any]:
    return {n: s for n, s in COMPOSE["services"].items() if n.startswith(f"{prefix}-")}


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "--failure-threshold", "info", "deploy/Dockerfile"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yml"],
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)],
    ],
    ids=lambda command: Path(command[-1]).name,
)
def test_each_file_is_valid_by_its_own_rules(command: list[str]) -> None:
    done = subprocess.run(
        [TOOLS / command[0], *command[1:]], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_images_of_others_are_named_by_their_digests() -> None:
    """A tag can be moved to other content; a digest cannot."""
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.M))
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    images = [re.sub(r"\$\{(\w+)\}", lambda arg: defaults[arg[1]], base) for base in bases]
    images = [base for base in images if ":" in base]
    images += [s["image"] for name, s in COMPOSE["services"].items() if name not in built()]
    assert len(images) >= 5
    for name in images:
        assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", name), name


def test_the_images_have_every_package_of_the_wheel() -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    packages = declared["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    copied = re.findall(r"^COPY (\w+) \1$", stage("build"), re.M)
    assert sorted(copied) == sorted(packages)
    extras = declared["project"]["optional-dependencies"]
    for used in re.findall(r"lakequeue\[([\w,]+)\]", DOCKERFILE):
        assert set(used.split(",")) <= set(extras)
    for name in re.findall(r"^COPY ([\w.-]+(?: [\w.-]+)*) \./$", DOCKERFILE, re.M):
        assert all((REPOSITORY / one).exists() for one in name.split())


@pytest.mark.parametrize("role", [*ROLES, "cli"])
def test_an_image_starts_what_the_tests_start_with_options_that_exist(role: str) -> None:
    entry, arguments = (instruction(name, stage(role)) for name in ("ENTRYPOINT", "CMD"))
    if role == "cli":
        entry = [sys.executable, "-m", "lakequeue_cli.app"]
    else:
        assert entry[:2] == ["python", "-m"]
        entry = [sys.executable, *entry[1:]]
    told = subprocess.run(
        [*entry, "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for word in arguments:
        if word.startswith("--"):
            assert f"{word} " in told or f"{word}," in told or word == "--help"


@pytest.mark.parametrize(("role", "port"), ROLES.items())
def test_a_role_listens_where_its_settings_say(role: str, port: int) -> None:
    settings: Any = getattr(Settings(), role)
    assert settings.port == port
    text = stage(role)
    assert f"EXPOSE {port}\n" in text
    assert f"127.0.0.1:{port}/healthz" in text
    assert instruction("CMD", text) == ["--host", "0.0.0.0", "--port", str(port)]
    for service in services(role).values():
        for published in service.get("ports", []):
            assert published.partition(":")[2] == str(port)


def test_variables_of_the_cluster_are_settings() -> None:
    known = {variable(name) for name in meanings()}
    given = {
        name
        for service in COMPOSE["services"].values()
        for name in service.get("environment", {})
        if name.startswith("LAKEQUEUE_")
    }
    in_images = set(re.findall(r"\b(LAKEQUEUE_\w+)=", DOCKERFILE))
    assert given | in_images <= known
    assert {"LAKEQUEUE_ROOT", "LAKEQUEUE_ZOOKEEPER", "LAKEQUEUE_NODE"} <= given


def test_every_role_runs_more_than_once_under_a_name_of_its_own() -> None:
    assert len(services("zookeeper")) == 3
    for role in ROLES:
        nodes = services(role)
        assert len(nodes) == 2
        for name, service in nodes.items():
            assert service["environment"]["LAKEQUEUE_NODE"] == name == service["hostname"]
            assert service["build"]["target"] == role
            assert set(service["depends_on"]) == set(services("zookeeper"))
    ensemble = services("driver")["driver-1"]["environment"]["LAKEQUEUE_ZOOKEEPER"]
    assert {host.partition(":")[0] for host in ensemble.split(",")} == set(services("zookeeper"))


def test_the_console_is_for_this_machine_has_no_key_and_writes_nothing() -> None:
    console = COMPOSE["services"]["console"]
    given = console["environment"]
    secrets = {"LAKEQUEUE_API_KEY", "LAKEQUEUE_COORDINATION__PASSWORD", "LAKEQUEUE_ZOOKEEPER"}
    assert not secrets & set(given)
    assert console["ports"] == ["127.0.0.1:8083:8083"]
    assert console["volumes"] == ["queue:/queue:ro"]
    drivers = json.loads(given["LAKEQUEUE_CONSOLE__DRIVERS"])
    assert drivers == [f"http://{name}:{ROLES['driver']}" for name in services("driver")]
    told = subprocess.run(
        [sys.executable, "-m", "lakequeue_cli.app", "console", "--", "--help"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert all(word in told for word in console["command"] if word.startswith("--"))


def test_prometheus_scrapes_every_process_of_the_cluster() -> None:
    targets = yaml.safe_load((DEPLOY / "prometheus" / "targets.json").read_text())
    found = {(entry["labels"]["role"], t) for entry in targets for t in entry["targets"]}
    assert found == {
        (role, f"{name}:{port}") for role, port in ROLES.items() for name in services(role)
    }


def test_what_is_mounted_exists() -> None:
    declared = set(COMPOSE["volumes"])
    for service in COMPOSE["services"].values():
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in declared


def test_credentials_that_are_not_given_are_not_there() -> None:
    """Empty ones would be used as they are, in place of the machine's role."""
    for name, service in COMPOSE["services"].items():
        given = {n: v for n, v in service.get("environment", {}).items() if n.startswith("AWS_")}
        assert set(given.values()) <= {None}, name
        if "LAKEQUEUE_ROOT" in service.get("environment", {}):
            assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} <= set(given)
            assert {"AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"} <= set(given)


def test_a_zookeeper_keeps_its_snapshots_and_its_log() -> None:
    kept = [mount for s in services("zookeeper").values() for mount in s["volumes"]]
    assert len(set(kept)) == len(kept)
    for service in services("zookeeper").values():
        assert {mount.partition(":")[2] for mount in service["volumes"]} == {"/data", "/datalog"}


def test_images_are_named_without_a_host() -> None:
    images = [image(name) for name in COMPOSE["services"]]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert [image for image in images if "." in image.partition("/")[0].partition(":")[0]] == []


def test_the_workflow_runs_commands_that_exist() -> None:
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    assert set(jobs) == {"check", "audit", "test", "build", "publish", "images"}
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.M))
    lines = [
        shlex.split(line)
        for job in jobs.values()
        for step in job["steps"]
        for line in step.get("run", "").splitlines()
    ]
    made = {line[1] for line in lines if line[0] == "make"}
    assert {"check", "audit", "services", "wheel", "site"} == made <= targets
    for line in lines:
        if "compose" in line:
            assert (REPOSITORY / line[line.index("-f") + 1]).exists()
        if "run" in line and "cli" in line:
            command = line[line.index("cli") + 1 :]
            command = command[: command.index("|")] if "|" in command else command
            _accepted(command)


def test_actions_are_named_by_their_commits() -> None:
    used = re.findall(r"uses: (\S+)(.*)", WORKFLOW.read_text())
    assert len(used) > 10
    for action, said in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", said), f"{action}: which version that is"


def test_a_release_pushes_the_images_of_the_cluster_to_the_registry_of_a_variable() -> None:
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["images"]
    assert set(job["if"].split(" && ")) == {
        "startsWith(github.ref, 'refs/tags/v')",
        "vars.REGISTRY != ''",
    }
    assert set(job["needs"]) == {"test", "build"}
    runs = [step["run"] for step in job["steps"] if "run" in step]
    done = [shlex.split(run) for run in runs if run.startswith("docker compose")]
    files, verbs = [line[2:4] for line in done], [line[4] for line in done]
    assert (files, verbs) == ([["-f", "deploy/compose.yml"]] * 2, ["build", "push"])
    named = [line[5:] for line in done]
    assert named[0] == named[1]
    # Whatever the cluster runs of ours, built as there.
    pushed = [(image(name), COMPOSE["services"][name]["build"]) for name in named[0]]
    assert len({name for name, _ in pushed}) == len(pushed)
    for name, service in built().items():
        assert (image(name), service["build"]) in pushed
    for _, how in pushed:
        context = (DEPLOY / how["context"]).resolve()
        assert (context, how["dockerfile"]) == (REPOSITORY, "deploy/Dockerfile")
        stage(how["target"])
    assert job["env"]["IMAGE_PREFIX"] == "${{ vars.REGISTRY }}/"
    assert job["env"]["IMAGE_TAG"] == "${{ github.ref_name }}"
    there = [image(name, IMAGE_PREFIX="some.where/", IMAGE_TAG="v1") for name in named[0]]
    assert there == [f"some.where/{name.removesuffix(':latest')}:v1" for name, _ in pushed]
    (login,) = [run for run in runs if "docker login" in run]
    assert shlex.split(login)[-1] == "${IMAGE_PREFIX%%/*}", "the host, and none that stands here"
    assert "--password-stdin" in login


def _accepted(command: list[str]) -> None:
    """The command line knows these options."""
    words = [word for word in command if not word.startswith("-")]
    verbs = words[:2] if words[0] == "topic" else words[:1]
    told = subprocess.run(
        [sys.executable, "-m", "lakequeue_cli.app", *verbs, "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    for word in command:
        if word.startswith("-") and len(word) > 1:
            assert word in told, (command, word)
