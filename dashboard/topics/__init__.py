"""Rules for whole topics: which are idle, and which retention fits their readers. Pure."""
