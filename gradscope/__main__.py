"""`python -m gradscope`: the command line, for environments whose scripts are not on PATH."""

from gradscope.cli.app import main

if __name__ == "__main__":
    main()
