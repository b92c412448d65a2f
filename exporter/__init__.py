"""shadow-pleg: is the CRI event stream of this node complete, and what is the evidence?

Importing this package, or anything in it, registers nothing and starts nothing.
"""

# The version; a test names the files in deploy/ and docs/ that repeat it.
__version__ = "0.1.0"
# Where the project is published. To publish it elsewhere, change this line, and run
# `make generate`.
HOME = "https://github.com/shadow-pleg/shadow-pleg"
RUNBOOKS = f"{HOME}/blob/main/docs/runbooks"
