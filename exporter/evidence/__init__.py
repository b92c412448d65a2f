"""The evidence behind a verdict, kept so that it can be checked: the flight recorder and cases."""
