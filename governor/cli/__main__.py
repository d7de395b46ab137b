"""`python -m governor.cli` is the `governor` command."""

import sys

from governor.cli.main import main

sys.exit(main())
