"""The file that an installed hook names: `python -I …/run.py claude [--option value]…`.

Any failure ends in exit code 2, which agents take as "do not run it"; a hook that crashes otherwise would let the tool
run.
"""

import os
import sys

MODULES = {"claude": "claude", "codex": "codex", "gemini": "before_tool", "qwen": "before_tool"}


def _run() -> int:
    # Behind all others: -I keeps this file's folder off the path, and ours must not shadow the standard library.
    sys.path.append(__file__.rsplit("/", 4)[0])
    name = sys.argv[1]
    if name not in MODULES:
        raise ValueError(f"there is no hook `{name}`")
    module = __import__(f"workers.bridges.hooks.{MODULES[name]}", fromlist=["main"])
    code: int = module.main(name, sys.argv[2:])
    return code


if __name__ == "__main__":
    try:
        CODE = _run()
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - see above
        sys.stderr.write(
            f"permission-ledger: the hook failed, so the tool does not run: {str(error) or type(error).__name__}\n"
        )
        CODE = 2
    sys.stderr.flush()
    # A normal shutdown of the interpreter takes longer than the whole hook.
    os._exit(CODE)
