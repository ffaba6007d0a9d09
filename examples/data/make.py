"""Makes the tables in this folder: two hundred papers that cite each other, all made up.

    python examples/data/make.py [FOLDER]

An installed graphdrop makes the same files: `graphdrop data example FOLDER`.
"""

import sys
from pathlib import Path

from graphdrop.data.example import write_example

if __name__ == "__main__":
    write_example(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
