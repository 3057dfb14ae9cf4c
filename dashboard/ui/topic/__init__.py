"""Parts of the pages of one topic and of one group, whose addresses name it."""
