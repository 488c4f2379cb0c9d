"""Write the bill of materials beside a wheel: `python scripts/sbom.py dist` (`make sbom`).

CycloneDX JSON, by cyclonedx-bom from the packages in .venv, cut down to what requirements/runtime.txt locks. Packages of
the lock that this platform does not install are added with their marker.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements" / "runtime.txt"

ELSEWHERE: Final = {
    "async-timeout": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "tzdata": "Apache-2.0",
}
"""Licences of locked packages that some platforms do not install; on those, no metadata names them."""

IN_A_TEXT: Final = {"protobuf": "BSD-3-Clause", "rich-click": "MIT"}
"""Licences of packages whose metadata hold no name that the tool reads."""

Part = dict[str, Any]


def locked() -> dict[str, tuple[str, str]]:
    """Return version and marker of each package of the lock, by normal name."""
    entry = re.compile(r"^([a-z0-9-]+)==([^ ;\\]+)(?: ; ([^\\]+?))?(?: \\)?$", re.MULTILINE)
    return {name: (version, marker) for name, version, marker in entry.findall(LOCK.read_text())}


def installed() -> Part:
    """Return the bill of all packages in this interpreter's environment."""
    options = [
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--output-reproducible",
        "--no-validate",
        "--of",
        "JSON",
        "-o",
        "-",
    ]
    command = [sys.executable, "-m", "cyclonedx_py", "environment", *options, sys.executable]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))  # noqa: S603 - constant words


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def added(name: str, version: str, marker: str) -> Part:
    """Return the entry of a package that this platform does not install."""
    return {
        "type": "library",
        "bom-ref": f"{name}=={version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": [{"license": {"id": ELSEWHERE[name]}}],
        "properties": [{"name": "permission-ledger:marker", "value": marker}],
    }


def bill(wheel: Path) -> Part:
    """Return the bill of the wheel's dependencies. Raises SystemExit when .venv or this script is behind the lock."""
    whole, pins = installed(), locked()
    here = [part for part in whole["components"] if normal(part["name"]) in pins]
    for part in here:
        if not part.get("licenses") and normal(part["name"]) in IN_A_TEXT:
            part["licenses"] = [{"license": {"id": IN_A_TEXT[normal(part["name"])]}}]
    stale = [f"{p['name']} {p['version']}" for p in here if p["version"] != pins[normal(p["name"])][0]]
    missing = sorted(pins.keys() - {normal(part["name"]) for part in here})
    unknown = [name for name in missing if name not in ELSEWHERE or not pins[name][1]]
    if stale or unknown:
        sys.exit(
            f"sbom: not as locked: {', '.join(stale + unknown)}; run `make setup`, or name its licence in {__file__}"
        )
    parts = here + [added(name, *pins[name]) for name in missing]
    kept = {part["bom-ref"] for part in parts} | {whole["metadata"]["component"]["bom-ref"]}
    whole["components"] = sorted(parts, key=lambda part: normal(part["name"]))
    whole["dependencies"] = [
        {**one, **({"dependsOn": [ref for ref in one["dependsOn"] if ref in kept]} if "dependsOn" in one else {})}
        for one in whole["dependencies"]
        if one["ref"] in kept
    ] + [{"ref": f"{name}=={pins[name][0]}"} for name in missing]
    whole["metadata"]["component"]["hashes"] = [{"alg": "SHA-256", "content": sha256(wheel.read_bytes()).hexdigest()}]
    return whole


def main(folder: Path) -> None:
    """Write one bill beside each wheel of a folder."""
    for wheel in sorted(folder.glob("*.whl")):
        path = wheel.with_suffix(".cdx.json")
        path.write_text(json.dumps(bill(wheel), indent=2, ensure_ascii=False) + "\n")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
