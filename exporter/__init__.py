"""shadow-pleg: is the CRI event stream of this node complete, and what is the evidence?

Importing this package, or anything in it, registers nothing and starts nothing.
"""

__version__ = "0.1.0"
# Where docs/runbooks is published: as `links.runbooks` of alerts/values.yaml.
RUNBOOKS = "https://shadow-pleg.invalid/docs/runbooks"
