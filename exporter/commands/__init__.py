"""The commands besides serve: what each does with its flags."""
