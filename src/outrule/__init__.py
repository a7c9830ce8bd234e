"""outrule."""
