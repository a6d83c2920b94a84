"""What a token or a user's permissions allow: pure functions of names, patterns and scopes."""
