"""`python -m tests.support.loaded serve ...` runs a command, and prints what was loaded by then."""

import json
import sys

from exporter.__main__ import main

if __name__ == "__main__":
    main()
    # A name without a module is one that must not be found.
    loaded = [name for name, module in sys.modules.items() if hasattr(module, "__name__")]
    sys.stdout.write(json.dumps(loaded))
