"""Tables to try things on: papers that cite each other, all made up.

`new_nodes.csv` and `new_edges.csv` are eighty papers of a later year, none of them with a field. Of
the citations in the folder `dirty` two sevenths are wrong, which `bad_edges.csv` lists.
`examples/data/make.py` in the repository has made the files.
"""

from pathlib import Path

from graphdrop.io.files import check_regular

TABLES = Path(__file__).with_name("example_tables")


def write_example(folder: Path, *, dirty: bool = False) -> list[Path]:
    """Write the example's files into a folder, which is made; other contents are not replaced."""
    tables = sorted((TABLES / "dirty" if dirty else TABLES).glob("*.csv"))
    files = {folder / path.name: path.read_bytes() for path in tables}
    for path, content in files.items():
        if path.exists() and check_regular(path).read_bytes() != content:
            raise ValueError(
                f"{path} is there already, with other contents; give another FOLDER, "
                "or move the file away"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        if not path.exists():  # another process may be reading it
            path.write_bytes(content)
    return list(files)
