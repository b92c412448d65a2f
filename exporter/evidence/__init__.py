"""What a verdict rests on, kept so that it can be argued: the flight recorder and its cases."""
