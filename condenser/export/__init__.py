"""A retriever as other libraries load it: sentence-transformers, transformers, Pyserini and ONNX Runtime.

docs/systems.md says what lies in the folder.
"""
