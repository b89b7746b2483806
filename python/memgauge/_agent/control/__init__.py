"""The control socket: clients, their requests, the answers."""
