"""Sets one broker's orphans aside, puts them back, deletes them when their time is up."""
