"""Finished systems answer new queries: in the terminal, and in a browser on this machine.

Nothing here makes a result. What can be asked stands in a file that the workflow writes
(`condenser.pipeline.known`). When a system is opened, the bytes of its model, embeddings or index, and
texts are compared with their manifests.
"""
