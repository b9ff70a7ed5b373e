"""`python -m swapcal`: the command line."""

from swapcal.cli import main

if __name__ == "__main__":
    main()
