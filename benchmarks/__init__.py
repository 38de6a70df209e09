"""One script for every headline number; each runs ours and a named peer in one run and prints a ratio."""
