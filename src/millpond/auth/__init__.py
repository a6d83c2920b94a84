"""Authorization: pure functions of tokens, permissions, patterns and scopes."""
