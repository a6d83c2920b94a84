"""Millpond in tests: the pytest plugin, which pytest finds by itself when Millpond is installed.

Fixtures (``plugin.py``): ``millpond`` is a fresh broker for one test, ``millpond_session`` one broker for the
whole run, ``millpond_factory`` makes brokers with settings of their own, ``millpond_cluster`` is three nodes
for the whole run. Without pytest use ``millpond.Broker`` and ``millpond.testing.cluster.LocalCluster``.
"""
