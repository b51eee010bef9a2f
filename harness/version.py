"""The version of the instrument: written into every record and into the distribution."""

VERSION = "1.1.0"
