"""A partition as its replicas see it: who leads, what is committed, who waits for it. Pure."""
