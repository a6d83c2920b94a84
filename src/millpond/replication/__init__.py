"""A partition from its replicas' side: the leader, the followers, the high watermark. Pure."""
