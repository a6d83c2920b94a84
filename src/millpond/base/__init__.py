"""What everything else stands on. Imports nothing of ours."""
