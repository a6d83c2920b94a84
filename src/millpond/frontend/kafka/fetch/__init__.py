"""The three APIs that share the number of Fetch: of consumers, of followers and of the metadata log's voters.

``handlers/fetch.py`` decodes a request and gives it to one of them by its replica id and topic.
"""
