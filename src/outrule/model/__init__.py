"""What a fit leaves behind: a frozen `Model`, its file format, and spec files."""
