"""Leaders and followers: fetch loops, followers' sessions, in-sync replicas."""
