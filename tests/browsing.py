"""A browser to look at pages with."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def chromium(*arguments: str) -> Iterator[Any]:
    """Start Chromium with further arguments; skip the test where there is none."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program or not shutil.which("chromedriver"):
        pytest.skip("no chromium and chromedriver on this machine")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    usual = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900")
    for argument in (*usual, *arguments):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def until(condition, seconds=250.0):
    """Wait for what a browser does in its own time."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found
