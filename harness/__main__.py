"""``python -m gravbench`` is ``gravbench``."""

from gravbench.cli.main import main

if __name__ == "__main__":
    main()
