"""A disk that runs full: which purges give it room, how soon, and what they would risk."""
