"""RabbitMQ's management API over HTTP: requests as values in, answers as values out; no sockets here."""
