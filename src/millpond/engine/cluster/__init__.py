"""This node and the controller: registration, heartbeats, elections, administration."""
