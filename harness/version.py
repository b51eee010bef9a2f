"""The version of the instrument: written into every record and into the distribution."""

VERSION = "0.1.0"
