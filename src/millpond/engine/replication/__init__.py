"""Leaders and followers: fetch loops, followers' sessions, who is in sync."""
