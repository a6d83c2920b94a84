"""A message as every protocol can describe it, and the codecs between protocols and records."""
