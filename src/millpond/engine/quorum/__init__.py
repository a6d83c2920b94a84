"""The metadata quorum on this node: its log, its snapshots and the raft replica that is driven here."""
