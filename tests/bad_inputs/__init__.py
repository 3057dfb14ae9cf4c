"""Bad inputs, case by case and by chance: each ends with its named error and changes nothing."""
