"""python -m groc"""

import sys

from groc.cli import main

if __name__ == "__main__":
    sys.exit(main())
