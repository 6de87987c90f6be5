"""`python -m fusion` is the command `fusion`."""

from fusion.doors.cli import main

if __name__ == "__main__":
    main()
