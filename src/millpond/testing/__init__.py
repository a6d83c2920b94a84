"""Millpond in tests: the pytest plugin, which pytest finds by itself when Millpond is installed.

Fixtures (``plugin.py``): ``millpond`` is a new broker for one test, ``millpond_session`` one broker for the
whole run, ``millpond_factory`` starts brokers with given settings, ``millpond_cluster`` is three nodes for
the whole run. Without pytest use ``millpond.Broker`` and ``millpond.testing.cluster.LocalCluster``.
"""
