"""The files of compose/ by the schemas of Compose and Kubernetes. `make test-cluster` installs both."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

COMPOSE = Path(__file__).parents[2] / "compose"
PYTHON = os.environ.get("CLUSTER_PYTHON", "")
KUBECTL = shutil.which("kubectl")
VERSIONS = ("1.30", "1.33", "1.37")
"""of Kubernetes: the oldest whose pods can sleep before they stop, and later ones"""
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PYTHON, reason="no schemas are installed: make test-cluster"),
]


def said(*command: str) -> str:
    """What a command says; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.feature("… each file is valid by Compose's own schema", of="compose/: all ports are on loopback")
def test_each_file_is_what_compose_specifies() -> None:
    files = [str(file) for file in sorted(COMPOSE.glob("*.yaml"))]
    said(PYTHON, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *files)


@pytest.mark.feature("compose/kubernetes: each manifest is valid by the schemas of Kubernetes 1.30, 1.33 and 1.37")
@pytest.mark.parametrize("version", VERSIONS)
def test_each_manifest_is_what_kubernetes_specifies(version: str, tmp_path: Path) -> None:
    """Strictly, so a key that is misspelt is refused too."""
    kustomization = yaml.safe_load((COMPOSE / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8"))
    files = [str(COMPOSE / "kubernetes" / name) for name in kustomization["resources"]]
    said(PYTHON, "-m", "kubernetes_validate", "--strict", "--kubernetes-version", version, *files)
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text((COMPOSE / "kubernetes" / "embed.yaml").read_text().replace("runAsNonRoot", "runAsNoRoot"))
    command = [PYTHON, "-m", "kubernetes_validate", "--strict", "--kubernetes-version", version, str(misspelt)]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


@pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")
def test_kubectl_builds_what_is_applied(tmp_path: Path) -> None:
    """With the settings under a name of their content, which the gateways then read."""
    built = tmp_path / "built.yaml"
    built.write_text(said(str(KUBECTL), "kustomize", str(COMPOSE / "kubernetes")), encoding="utf-8")
    said(PYTHON, "-m", "kubernetes_validate", "--strict", "--kubernetes-version", VERSIONS[-1], str(built))
    documents = list(yaml.safe_load_all(built.read_text(encoding="utf-8")))
    (settings,) = (one["metadata"]["name"] for one in documents if one["kind"] == "ConfigMap")
    (gateway,) = (one for one in documents if one["kind"] == "Deployment" and one["metadata"]["name"] == "gateway")
    pod = gateway["spec"]["template"]["spec"]
    assert {"name": settings} in [volume.get("configMap") for volume in pod["volumes"]]
    assert all("registry.example/" in container["image"] for container in pod["containers"])
