"""Train dense retrievers the Condenser / coCondenser way: everything that needs no Snakemake."""
