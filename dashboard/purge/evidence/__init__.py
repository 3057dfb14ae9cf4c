"""What a plan rests on beside live reads: the store's memory, estimates, measured readers."""
