"""`python -m graphdrop` is the command `graphdrop`."""

from graphdrop.cli import main

if __name__ == "__main__":
    main()
