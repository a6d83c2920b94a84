"""Types, limits, errors and encodings that every other package uses. Imports no other package of ours."""
