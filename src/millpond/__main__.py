"""``python -m millpond`` is the ``millpond`` command."""

from millpond.cli import main

if __name__ == "__main__":
    main()
