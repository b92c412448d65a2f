"""The kubelet's side: what it says, how it is asked, and what is made of it."""
