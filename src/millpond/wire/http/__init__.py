"""HTTP/1.1 without sockets, for front-ends that serve it."""
