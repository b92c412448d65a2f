"""What a verdict rests on, kept so that it can be argued: flight recorder, evidence, recordings."""
