"""What operators do with a journal: archive it, export it, go on with a restored one."""
