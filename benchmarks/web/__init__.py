"""Modules in a browser: headless Chromium, measured and looked at."""
