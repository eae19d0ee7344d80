"""python -m outrider: the command line."""

import sys

from outrider.cli.main import main

sys.exit(main())
