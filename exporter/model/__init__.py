"""Types that all packages share: facts, events, findings, flaws, label values. Imports no other."""
