"""``make demo``: a shop's clicks and logs through a broker and Spark, with a checked result."""
