"""The report of a data set: one page of what was made, how good it is, what it cost, and where it is wrong.

`state` finds the results and writes what the configuration of today says of them; `collect` reads them into
plain values; `queries` does so for single queries; `charts` draws; `page` puts all into one HTML file.
"""
