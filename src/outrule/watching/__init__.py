"""Watching after deployment: whether what the certificate said is still true."""
