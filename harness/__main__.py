"""``python -m gravbench`` is ``gravbench``."""

from gravbench.cli.start import main

if __name__ == "__main__":
    main()
