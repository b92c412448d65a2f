"""What all packages share: facts, events, findings, flaws, label values. Imports none of them."""
