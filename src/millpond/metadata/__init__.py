"""What the cluster agrees on: topics, nodes, settings. Pure: records in, images out."""
