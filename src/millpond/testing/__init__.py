"""Millpond in tests: the pytest plugin, which pytest finds by itself when Millpond is installed.

Fixtures (``plugin.py``): ``millpond`` is a fresh broker for one test, ``millpond_session`` one broker for the
whole run, ``millpond_factory`` makes brokers with settings of their own. Without pytest use
``millpond.Broker``.
"""
