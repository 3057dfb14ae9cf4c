"""What a purge freed, held against what was predicted, and what came back since."""
