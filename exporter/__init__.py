"""shadow-pleg: is the CRI event stream of this node complete, and what is the evidence?

Importing this package, or anything in it, registers nothing and starts nothing.
"""

# The one place of the version: `make deploy` writes it into chart, manifests and docs.
__version__ = "0.1.0"
# Where the project is published. Whoever publishes it elsewhere changes this line, and then runs
# `make alerts dashboards deploy`.
HOME = "https://github.com/shadow-pleg/shadow-pleg"
RUNBOOKS = f"{HOME}/blob/main/docs/runbooks"
