"""`python -m workers.cli` is `permission-ledger`."""

from __future__ import annotations

import sys

from workers.cli import main

sys.exit(main())
