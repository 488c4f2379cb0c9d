"""Distributed files: the wheel, and the lock that a checkout and an image are made from."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.sources import PACKAGES, ROOT, files, imports_of, module_of, text_of
from tests.support.rows import none_of

if TYPE_CHECKING:
    from pathlib import Path

PYPROJECT: Final[dict[str, Any]] = tomllib.loads(text_of("pyproject.toml"))
PROJECT: Final[dict[str, Any]] = PYPROJECT["project"]
LOCKS: Final = (
    "requirements/agents.txt",
    "requirements/build.txt",
    "requirements/ci.txt",
    "requirements/dev.txt",
    "requirements/release.txt",
    "requirements/runtime.txt",
)

# Names to import that differ from the distribution's.
IMPORTED_AS: Final = {
    "ada-url": "ada_url",
    "claude-agent-sdk": "claude_agent_sdk",
    "langchain-core": "langchain_core",
    "markdown-it-py": "markdown_it",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "rpds-py": "rpds",
    "tree-sitter": "tree_sitter",
    "tree-sitter-bash": "tree_sitter_bash",
}
OF_SOME_VERSIONS: Final = {"_sha2", "_sha256"}
"""Modules that the standard library has only before or from Python 3.12 on."""

DEVELOPMENT: Final = ("_pytest", "hypothesis", "importlinter", "mypy", "pytest", "pytest_asyncio", "xdist")


ENTRY_POINT = "permission_ledger.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the locked backend, without isolation and without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**os.environ, "NO_COLOR": "1"})
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_is_pure_and_bears_the_name_and_version(wheel: Path) -> None:
    assert wheel.name == f"permission_ledger-{PROJECT['version']}-py3-none-any.whl"


def test_the_wheel_holds_exactly_the_three_packages_with_their_data_and_the_entry_point(wheel: Path) -> None:
    metadata = f"permission_ledger-{PROJECT['version']}.dist-info/"
    names = ZipFile(wheel).namelist()
    inside = sorted(name for name in names if not name.startswith(metadata))
    assert inside == sorted([*files(*PACKAGES, suffix=""), ENTRY_POINT])
    assert {name.partition("/")[0] for name in inside} == {*PACKAGES, ENTRY_POINT}
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(inside)
    assert {"ledger/stores/redis/append.lua", "ledger/policy/tables.jsonl"} <= set(inside)


def test_the_wheel_installs_one_command_and_the_licence(wheel: Path) -> None:
    metadata = f"permission_ledger-{PROJECT['version']}.dist-info"
    with ZipFile(wheel) as archive:
        assert archive.read(f"{metadata}/entry_points.txt").decode().split() == [
            "[console_scripts]",
            "permission-ledger",
            "=",
            "permission_ledger:main",
        ]
        assert archive.read(f"{metadata}/licenses/LICENSE").decode() == text_of("LICENSE")


def test_every_module_loads_without_the_packages_of_development() -> None:
    modules = [module_of(file) for file in files(*PACKAGES) if not file.endswith("__main__.py")]
    code = (
        "import importlib, sys\n"
        f"for name in {DEVELOPMENT!r}: sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_source_file_imports_only_what_is_declared() -> None:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    declared = [*PROJECT["dependencies"], *extras, "hiredis"]
    names = [Requirement(line).name for line in declared]
    known = {*sys.stdlib_module_names, *OF_SOME_VERSIONS, *PACKAGES, *(IMPORTED_AS.get(name, name) for name in names)}
    none_of(
        f"{file}:{line}: {name}"
        for file in files(*PACKAGES)
        for line, name in imports_of(file)
        if name.partition(".")[0] not in known
    )


def entries(lock: str) -> list[str]:
    """Return one string per requirement, its hashes included."""
    return text_of(lock).replace("\\\n", " ").splitlines()


def pins(lock: str) -> dict[str, str]:
    return {name: version for name, _, version in (entry.split()[0].partition("==") for entry in entries(lock))}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_versions_and_hashes_and_no_address(lock: str) -> None:
    entry = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [line for line in entries(lock) if not entry.fullmatch(line)] == []


@pytest.mark.parametrize("lock", ["requirements/build.txt", "requirements/runtime.txt"])
def test_the_smaller_locks_say_what_the_lock_of_development_says(lock: str) -> None:
    assert pins(lock).items() <= pins("requirements/dev.txt").items()


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        ("requirements/runtime.txt", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["embedded"]]),
        ("requirements/build.txt", PYPROJECT["build-system"]["requires"]),
        ("requirements/build.txt", PYPROJECT["dependency-groups"]["build"]),
        ("requirements/ci.txt", PYPROJECT["dependency-groups"]["ci"]),
        ("requirements/dev.txt", [line for line in PYPROJECT["dependency-groups"]["dev"] if isinstance(line, str)]),
    ],
    ids=["runtime", "backend", "build", "ci", "dev"],
)
def test_a_lock_holds_what_is_declared_in_a_version_that_is_declared(lock: str, declared: list[str]) -> None:
    locked = pins(lock)
    wanted = [Requirement(line) for line in declared]
    assert [str(want) for want in wanted if locked.get(canonicalize_name(want.name), "0") not in want.specifier] == []


@pytest.fixture(scope="module")
def bill(wheel: Path) -> dict[str, Any]:
    """The bill of materials, as `make wheel` writes it beside the wheel."""
    command = [sys.executable, "scripts/sbom.py", str(wheel.parent)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written: dict[str, Any] = json.loads(wheel.with_suffix(".cdx.json").read_text())
    return written


@pytest.mark.slow
def test_the_bill_of_materials_is_cyclonedx(bill: dict[str, Any]) -> None:
    # The validator makes grammars of addresses when it is imported, which takes seconds.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None


def test_the_bill_of_materials_lists_every_locked_package_with_version_and_licence(bill: dict[str, Any]) -> None:
    listed = {canonicalize_name(part["name"]): part["version"] for part in bill["components"]}
    assert listed == pins("requirements/runtime.txt")
    assert [part["name"] for part in bill["components"] if not part.get("licenses")] == []


def test_the_bill_of_materials_is_of_this_wheel(bill: dict[str, Any], wheel: Path) -> None:
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"]) == ("permission-ledger", PROJECT["version"])
    assert component["hashes"] == [{"alg": "SHA-256", "content": sha256(wheel.read_bytes()).hexdigest()}]
    refs = {part["bom-ref"] for part in bill["components"]} | {component["bom-ref"]}
    assert {ref for one in bill["dependencies"] for ref in (one["ref"], *one.get("dependsOn", ()))} == refs


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Wheel and source distribution, as `make packages` builds them, and their digests as it prints them."""
    folder = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "scripts/packages.py", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    digests = {name: digest for digest, name in (line.split() for line in done.stdout.splitlines())}
    return folder, digests


@pytest.mark.slow
def test_two_builds_of_the_packages_have_the_same_bytes(packages: tuple[Path, dict[str, str]]) -> None:
    folder, digests = packages
    assert {name.partition("-")[2] for name in digests} == {
        f"{PROJECT['version']}-py3-none-any.whl",
        f"{PROJECT['version']}.tar.gz",
    }
    assert {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} == digests


@pytest.mark.slow
def test_the_source_distribution_holds_every_file_that_the_tests_need_and_no_other(
    packages: tuple[Path, dict[str, str]],
) -> None:
    [built] = packages[0].glob("*.tar.gz")
    with tarfile.open(built) as archive:
        inside = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )
    kept = {name for name in listed if name and (ROOT / name).exists()}
    untracked = {name for name in inside - kept if not (ROOT / name).exists() or "__pycache__" in name}
    assert untracked == {"PKG-INFO"}
    assert kept - inside == set()


@pytest.mark.slow
def test_a_project_on_a_package_index_needs_no_address_of_it(packages: tuple[Path, dict[str, str]]) -> None:
    [built] = packages[0].glob("*.whl")
    with ZipFile(built) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = archive.read(name).decode()
    assert "Description-Content-Type: text/markdown" in metadata
    assert "\n# permission-ledger\n" in metadata
